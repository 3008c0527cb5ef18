// Package clustertest gives every test package a cluster of its own, the way net/http/httptest gives it a server.
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		client := clustertest.Client(t)
//		namespace := clustertest.Namespace(t)
//		...
//		clustertest.Eventually(t, "the pod is Ready", func(ctx context.Context) error { ... })
//	}
//
// The cluster is started before the first test and ends after the last; it is never shared with another package or with
// the cluster of `make cluster`. Tests of one package share it, so each works in a namespace of its own. It is always an
// embedded one, whatever CLUSTER in the environment says.
package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"go.uber.org/goleak"

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

// Namespace creates a namespace named after the test, with the ServiceAccount "default" that pods need and that no
// loop creates here. When the test ends, what runs in it is deleted.
func Namespace(t testing.TB) string {
	t.Helper()
	name := BareNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := Client(t).CoreV1().ServiceAccounts(name).Create(context.Background(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create ServiceAccount %s/default: %v", name, err)
	}
	return name
}

// BareNamespace is Namespace without the ServiceAccount.
func BareNamespace(t testing.TB) string {
	t.Helper()
	client := Client(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: namespacePrefix(t.Name()),
		Annotations:  map[string]string{"lab.kcm-book.io/test": t.Name()},
	}}
	created, err := client.CoreV1().Namespaces().Create(context.Background(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() { deleteWorkloads(t, client, created.Name) })
	return created.Name
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespacePrefix makes a test's name fit for a namespace.
func namespacePrefix(test string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(test), "-")
	return strings.Trim(name[:min(len(name), 50)], "-") + "-"
}

// deleteWorkloads deletes owners before what they own, so that a loop that still runs does not replace what is deleted.
// The namespace stays: no loop that would remove it runs.
func deleteWorkloads(t testing.TB, client kubernetes.Interface, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), eventuallyTimeout)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	apps, core, batch := client.AppsV1(), client.CoreV1(), client.BatchV1()
	all := metav1.ListOptions{}
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	err := errors.Join(
		batch.CronJobs(namespace).DeleteCollection(ctx, background, all),
		batch.Jobs(namespace).DeleteCollection(ctx, background, all),
		apps.Deployments(namespace).DeleteCollection(ctx, background, all),
		apps.DaemonSets(namespace).DeleteCollection(ctx, background, all),
		apps.StatefulSets(namespace).DeleteCollection(ctx, background, all),
		apps.ReplicaSets(namespace).DeleteCollection(ctx, background, all),
		core.ReplicationControllers(namespace).DeleteCollection(ctx, background, all),
		core.Pods(namespace).DeleteCollection(ctx, now, all),
	)
	if err != nil {
		t.Logf("delete what ran in namespace %s: %v", namespace, err)
	}
}

// Eventually looks until nothing is missing, and fails the test after 30 seconds with what was seen last, see [await.Until].
func Eventually(t testing.TB, what string, look func(context.Context) error) {
	t.Helper()
	if err := await.Until(t.Context(), pollInterval, eventuallyTimeout, what, look); err != nil {
		t.Fatal(err)
	}
}
