// Package clustertest gives every test package a cluster of its own, the way net/http/httptest gives it a server.
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		client := clustertest.Client(t)
//		...
//		clustertest.Eventually(t, "the pod is Ready", func(ctx context.Context) error { ... })
//	}
//
// The cluster is started before the first test and ends after the last; it is never shared with another package or with
// the cluster of `make cluster`. Tests of one package share it. It is always an embedded one, whatever CLUSTER in the
// environment says.
package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
)

// How many tests of a package run at the same time.
const parallelTests = "8"

// How long Eventually waits, and how often it looks.
const (
	eventuallyTimeout = 30 * time.Second
	pollInterval      = 20 * time.Millisecond
)

// shared is the cluster of this test process.
var shared *cluster.Cluster

// Main runs the tests of a package with one cluster for them all and exits. It fails the run if goroutines are left when
// the tests have passed and the cluster is closed. Call it from TestMain.
func Main(m *testing.M) {
	if onlyLists() {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared, err = cluster.StartEmbedded(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		return 1
	}
	// Tests wait for the cluster most of the time, not for a processor. A -parallel on the command line comes later and wins.
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		code = 1
	}
	if code != 0 {
		return code
	}
	// klog's flush daemon has no end. Nothing else may be left.
	if err := goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
		fmt.Fprintln(os.Stderr, "clustertest: goroutines are left after the tests:", err)
		return 1
	}
	return 0
}

// Reference tells whether REFERENCE=1 is in the environment: a test that runs a controller manager then runs the
// original, so that it shows whether it tells the truth about Kubernetes.
func Reference() bool { return os.Getenv("REFERENCE") == "1" }

// onlyLists says whether the process was started by go test -list, which runs no test and needs no cluster.
func onlyLists() bool {
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.list=") && arg != "-test.list=" {
			return true
		}
	}
	return false
}

// Cluster returns the cluster that Main started.
func Cluster() *cluster.Cluster {
	if shared == nil {
		panic("clustertest: no cluster: call clustertest.Main from TestMain")
	}
	return shared
}

// Client returns a client of the admin without rate limits.
func Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	return ClientFor(t, cluster.Admin)
}

// ClientFor returns a client of the user without rate limits.
func ClientFor(t testing.TB, user cluster.User) kubernetes.Interface {
	t.Helper()
	config := Cluster().RESTConfig(user)
	config.UserAgent = t.Name()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("client for %s: %v", user, err)
	}
	return client
}

// Eventually looks until nothing is missing, and fails the test after 30 seconds with what was seen last, see [await.Until].
func Eventually(t testing.TB, what string, look func(context.Context) error) {
	t.Helper()
	if err := await.Until(t.Context(), pollInterval, eventuallyTimeout, what, look); err != nil {
		t.Fatal(err)
	}
}
