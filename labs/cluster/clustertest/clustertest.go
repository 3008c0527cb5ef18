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
// The cluster starts when the first test asks for it and ends after the last; it is never shared with another package
// or with the cluster of `make cluster`. Tests of one package share it. It is always an embedded one, whatever CLUSTER
// in the environment says. With -short the tests that need an API server are skipped.
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
	shared, err = cluster.StartEmbedded(context.Background(), cluster.Options{})
	return err
})

// Main runs the tests of a package, with one cluster for all that need one, and exits. It fails the run if goroutines
// are left when the tests have passed and the cluster is closed. Call it from TestMain.
func Main(m *testing.M) {
	Run(m, func(int) error {
		if shared == nil {
			return nil
		}
		return shared.Close()
	})
}

// Run is [Main] for tests that have something else to end, which they do when they know the exit code.
func Run(m *testing.M, end func(code int) error) {
	// Tests wait for the cluster most of the time, not for a processor. A later -parallel on the command line wins.
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err)
	}
	code := m.Run()
	err := end(code)
	if err == nil && code == 0 {
		// klog's flush daemon and the watch for signals have no end. Nothing else may be left.
		klogs := goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")
		begin := time.Now()
		// What ends takes its time on a busy machine.
		for more := true; more; more = err != nil && time.Since(begin) < time.Minute {
			err = goleak.Find(klogs, goleak.IgnoreAnyFunction("os/signal.loop"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// SkipIfShort skips a test that needs an API server, or a program that has to be linked, if tests are to be -short.
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
	return kubernetes.NewForConfigOrDie(config)
}

// Eventually looks until nothing is missing, and fails the test after 30 seconds with what [await.Until] saw last.
func Eventually(t testing.TB, what string, look func(context.Context) error) {
	t.Helper()
	if err := await.Until(t.Context(), pollInterval, eventuallyTimeout, what, look); err != nil {
		t.Fatal(err)
	}
}
