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
// The cluster starts when the first test asks for it and ends after the last; it is never shared with another package or
// with the cluster of `make cluster`. Tests of one package share it. It is always an embedded one, whatever CLUSTER in the
// environment says. With -short the tests that need an API server are skipped.
package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
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

// shared is the cluster of this test process, once a test has asked for it.
var shared *cluster.Cluster

var start = sync.OnceValue(func() (err error) {
	shared, err = cluster.StartEmbedded(context.Background())
	return err
})

// Main runs the tests of a package, with one cluster for all that need one, and exits. It fails the run if goroutines are
// left when the tests have passed and the cluster is closed. Call it from TestMain.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Tests wait for the cluster most of the time, not for a processor. A -parallel on the command line comes later and wins.
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err)
	}
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "clustertest:", err)
			code = 1
		}
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

// SkipIfShort skips a test that needs an API server, or a program that has to be linked first, if tests are to be -short.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server or a program: run it without -short")
	}
}

// Reference tells whether REFERENCE=1 is in the environment: a test that runs a controller manager then runs the
// original, so that it shows whether it tells the truth about Kubernetes.
func Reference() bool { return os.Getenv("REFERENCE") == "1" }

// Cluster returns the cluster of the package, which starts when it is first asked for. With -short it skips the test.
func Cluster(t testing.TB) *cluster.Cluster {
	t.Helper()
	SkipIfShort(t)
	if err := start(); err != nil {
		t.Fatal(err)
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
	config := Cluster(t).RESTConfig(user)
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
