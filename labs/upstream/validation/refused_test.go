package validation

//lint:file-ignore SA1019 Endpoints are deprecated, and two of the loops are about them.

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

var (
	seed = flag.Uint64("seed", 1, "the number of the first random run")
	runs = flag.Uint64("runs", 50, "how many random runs there are about each kind")
)

func TestMain(m *testing.M) {
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%q is no flag\n", flag.Arg(0))
		os.Exit(2)
	}
	utilruntime.ErrorHandlers = nil // syncs fail all the time here, and one of the handlers sleeps
	klog.SetLogger(klog.Logger{})
	os.Exit(m.Run())
}

// TestKcmWritesNothingThatTheAPIServerRefuses has users, kubelets and nodes do several things before a loop looks.
func TestKcmWritesNothingThatTheAPIServerRefuses(t *testing.T) {
	for about := range deedsAbout {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			for n := *seed; n < *seed+*runs; n++ {
				if deeds := randomDeeds(about, n); refusedAfter(t, about, deeds) != "" {
					deeds = reduce(deeds, func(fewer []deed) bool { return refusedAfter(t, about, fewer) != "" })
					t.Fatalf("kcm wrote what the API server refuses: %s\nagain: make prove-memory ARGS='-runs 1 -seed %d'",
						refusedAfter(t, about, deeds), n)
				}
			}
		})
	}
}

// A loop that writes what it may not is found, whatever it writes.
func TestWhatTheAPIServerRefusesIsFound(t *testing.T) {
	for _, wrong := range []struct {
		about, refusal string
		change         func(client *fake.Clientset)
	}{
		{"Deployments", "`selector` does not match",
			change("create", "replicasets", func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Labels = nil })},
		{"Deployments", "availableReplicas",
			change("update", "deployments", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = -1 })},
		{"Deployments", "readyReplicas", change("update", "replicationcontrollers", func(rc *corev1.ReplicationController) {
			rc.Status.ReadyReplicas = rc.Status.Replicas + 1
		})},
		{"Deployments", "has changed it in the same sync",
			change("update", "replicasets", func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "0" })},
		{"Quotas", "must be an integer", change("update", "resourcequotas", func(q *corev1.ResourceQuota) {
			q.Status.Used[corev1.ResourcePods] = resource.MustParse("1.5")
		})},
		{"Jobs", "startTime: Required value",
			change("update", "jobs", func(job *batchv1.Job) { job.Status.StartTime = nil })},
		{"Jobs", "more ready pods than active",
			change("update", "jobs", func(job *batchv1.Job) { *job.Status.Ready = job.Status.Active + 1 })},
		{"Jobs", "cannot decrease the succeeded counter", change("update", "jobs", func(job *batchv1.Job) {
			if *job.Spec.CompletionMode == batchv1.IndexedCompletion {
				job.Status.Succeeded = indexesOf(job.Status.CompletedIndexes) // falls when a Job is lowered in two steps
			}
		})},
		{"Jobs", "finalizers", change("create", "pods", func(pod *corev1.Pod) { pod.Finalizers = []string{"no name"} })},
		{"CronJobs", "parallelism",
			change("create", "jobs", func(job *batchv1.Job) { job.Spec.Parallelism = new(int32(-1)) })},
		{"DaemonSets", "numberReady",
			change("update", "daemonsets", func(set *appsv1.DaemonSet) { set.Status.NumberReady = -1 })},
		{"DaemonSets", "data: Invalid value",
			change("update", "controllerrevisions", func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") })},
		{"Services", "port: Invalid value", change("update", "endpoints", func(e *corev1.Endpoints) {
			for _, subset := range e.Subsets {
				subset.Ports[0].Port = 0
			}
		})},
		{"Services", "Duplicate value",
			change("create", "endpointslices", func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports...) })},
		{"Accounts", "binaryData", change("update", "configmaps", func(cm *corev1.ConfigMap) {
			cm.BinaryData = map[string][]byte{"ca.crt": nil}
		})},
		{"Accounts", "field is immutable", change("update", "secrets", func(s *corev1.Secret) { s.Type = "Opaque" })},
		{"Nodes", "effect: Unsupported value", changePatch("nodes", `"effect":"NoSchedule"`, `"effect":"Never"`)},
		{"Nodes", "podCIDRs[0]: Invalid value", changePatch("nodes", `"10.9.0.0`, `"10.9.0.8`)},
		{"Nodes", "annotations: Invalid value", changePatch("nodes", corev1.ObjectTTLAnnotationKey, "seconds to live")},
		{"Nodes", "capacity", changePatch("nodes", `"status":{`, `"status":{"capacity":{"cpu":"-1"},`)},
		{"Nodes", "changed it in the same sync", changePatch("nodes", `"resourceVersion":"`, `"resourceVersion":"0`)},
		{"Nodes", "conditions[0].Type: Invalid value", changePatch("pods", "DisruptionTarget", "is disrupted")},
		{"Nodes", "conditions[0].observedGeneration", changePatch("pods", `"type":"Ready"`, `"type":"Ready","observedGeneration":-1`)},
		{"Certificates", "at least one CERTIFICATE PEM block", change("update", "certificatesigningrequests",
			func(csr *certificatesv1.CertificateSigningRequest) {
				csr.Status.Certificate = csr.Status.Certificate[min(1, len(csr.Status.Certificate)):]
			})},
		{"Certificates", "status: Unsupported value", change("update", "certificatesigningrequests",
			func(csr *certificatesv1.CertificateSigningRequest) {
				for i := range csr.Status.Conditions {
					csr.Status.Conditions[i].Status = "maybe"
				}
			})},
		{"Certificates", "has changed it in the same sync", change("update", "certificatesigningrequests",
			func(csr *certificatesv1.CertificateSigningRequest) { csr.ResourceVersion = "0" })},
		{"Roles", "verbs: Required value", changePatch("clusterroles", `"verbs":["`, `"verbs":[],"was":["`)},
		{"Roles", "has changed it in the same sync",
			changePatch("clusterroles", `"resourceVersion":"`, `"resourceVersion":"0`)},
		{"Tokens", "data[a/b]: Invalid value",
			change("update", "configmaps", func(cm *corev1.ConfigMap) { cm.Data["a/b"] = "" })},
		{"Tokens", "has changed it in the same sync",
			change("update", "configmaps", func(cm *corev1.ConfigMap) { cm.ResourceVersion = "0" })},
		{"Tokens", "labels: Invalid value", changePatch("secrets", invalidSince+`":"`, invalidSince+`":"-`)},
	} {
		t.Run(wrong.refusal, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(200) {
				if told := refusedAfter(t, wrong.about, randomDeeds(wrong.about, n), wrong.change); told != "" {
					assert.Contains(t, told, wrong.refusal)
					return
				}
			}
			t.Fatal("it was not found in 200 runs")
		})
	}
}

// indexesOf returns how many there are in "0,2-4".
func indexesOf(words string) (n int32) {
	for word := range strings.SplitSeq(words, ",") {
		first, last := int32(0), int32(-1)
		if count, _ := fmt.Sscanf(word, "%d-%d", &first, &last); count == 1 {
			last = first
		}
		n += last - first + 1
	}
	return n
}

// refusedAfter tells what the API server refused after deeds, and what had been done until then, or nothing.
func refusedAfter(t *testing.T, about string, deeds []deed, wrong ...func(client *fake.Clientset)) (told string) {
	synctest.Test(t, func(*testing.T) {
		c := &cluster{Clientset: fake.NewSimpleClientset(), about: about}
		c.PrependReactor("*", "*", c.answer)
		for _, change := range wrong {
			change(c.Clientset)
		}
		c.start()
		for _, d := range slices.Concat(deeds, []deed{deny(""), pass(10 * time.Minute)}) {
			told += "\n  " + d.what
			if d.do(c); c.refused != "" {
				break
			}
		}
		if told = c.refused + ", after:" + told; c.refused == "" {
			told = ""
		}
		c.stop()
	})
	return told
}

// change changes what the loops write.
func change[T runtime.Object](verb, resource string, to func(obj T)) func(client *fake.Clientset) {
	return func(client *fake.Clientset) {
		client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			to(action.(interface{ GetObject() runtime.Object }).GetObject().(T))
			return false, nil, nil
		})
	}
}

// reduce drops deeds as long as what is left still shows something. First it drops many at a time, then single ones.
func reduce(deeds []deed, shows func(deeds []deed) bool) []deed {
	for size := len(deeds) / 2; size > 0; {
		dropped := false
		for at := 0; at+size <= len(deeds); {
			if fewer := slices.Delete(slices.Clone(deeds), at, at+size); shows(fewer) {
				deeds, dropped = fewer, true
			} else {
				at += size
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return deeds
}
