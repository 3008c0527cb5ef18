// Package replication_test is the lab of chapter 06: the loop that keeps as many
// pods as a ReplicaSet or a ReplicationController asks for.
package replication_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

func TestReplication(t *testing.T) {
	l := lab.New(t, 6)
	var kcm *lab.Process
	var recording *history.Recording
	var first string

	pods := func(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
		list, err := l.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	// awaitReady waits until exactly so many pods are there, all Ready.
	awaitReady := func(s *lab.Step, namespace string, count int) {
		s.Helper()
		s.Await(fmt.Sprintf("%d pods are Ready in %s, and no other is there", count, namespace), func(ctx context.Context) (bool, string, error) {
			all, err := pods(ctx, namespace, "app=web")
			ready := 0
			for i := range all {
				if controller.IsPodReady(&all[i]) && all[i].DeletionTimestamp == nil {
					ready++
				}
			}
			return ready == count && len(all) == count, fmt.Sprintf("%d pods, %d Ready", len(all), ready), err
		})
	}

	l.Step("A ReplicaSet of three gets three pods", func(s *lab.Step) {
		kcm = s.Start("kcm", slices.Concat(lab.QuickLease, []string{"-v=2"})...)
		s.Namespace("web")
		recording = s.Record("web")
		s.Kubectl("create -n web -f manifests/web.yaml")
		awaitReady(s, "web", 3)
		s.Kubectl("get -n web replicasets,pods")
	})

	l.Step("A pod that is deleted is replaced", func(s *lab.Step) {
		all, err := pods(s.Context(), "web", "app=web")
		require.NoError(s, err)
		first = all[0].Name
		s.Kubectl("delete -n web pod " + first)
		awaitReady(s, "web", 3)
		assert.Len(s, s.Created(recording), 4, "one pod for one")
	})

	l.Step("A pod that loses its label is released, and replaced", func(s *lab.Step) {
		all, err := pods(s.Context(), "web", "app=web")
		require.NoError(s, err)
		first = all[0].Name
		s.Kubectl("label -n web --overwrite pod " + first + " app=debug")
		awaitReady(s, "web", 3)
		s.Await("the pod has no owner any more", func(ctx context.Context) (bool, string, error) {
			pod, err := l.Client.CoreV1().Pods("web").Get(ctx, first, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return len(pod.OwnerReferences) == 0, fmt.Sprint(pod.OwnerReferences), nil
		})
		s.Say("It still runs. Somebody can look at it in peace.")
	})

	l.Step("A pod that gets the label is adopted, and one too many is deleted", func(s *lab.Step) {
		s.Kubectl("label -n web --overwrite pod " + first + " app=web")
		awaitReady(s, "web", 3)
		s.Always(recording, "no pod was ever adopted by two owners", func(state history.State) error {
			for _, pod := range state.Pods() {
				if len(pod.OwnerReferences) > 1 {
					return fmt.Errorf("%s has the owners %v", pod.Name, pod.OwnerReferences)
				}
			}
			return nil
		})
	})

	l.Step("A quota refuses pods: slow start asks a few times and not two hundred", func(s *lab.Step) {
		s.Namespace("small")
		s.Kubectl("create -n small -f manifests/quota.yaml")
		s.Say("No loop here counts what is used, so we say it ourselves: nothing is left.")
		s.Kubectl(`patch -n small resourcequota pods --subresource=status --type=merge -p '{"status":{"hard":{"pods":"3"},"used":{"pods":"3"}}}'`)
		s.Await("the quota is enforced", func(ctx context.Context) (bool, string, error) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
			_, err := l.Client.CoreV1().Pods("small").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "exceeded quota"), fmt.Sprint(err), nil
		})
		s.Kubectl("create -n small -f manifests/web.yaml")
		s.Kubectl("scale -n small replicaset web --replicas=200")
		s.Await("the set says why it has no pods", func(ctx context.Context) (bool, string, error) {
			rs, err := l.Client.AppsV1().ReplicaSets("small").Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			for _, condition := range rs.Status.Conditions {
				if condition.Type == "ReplicaFailure" {
					return true, condition.Message, nil
				}
			}
			return false, "no condition yet", nil
		})
		refused, err := l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
			return e.Namespace == "small" && e.Resource == "pods" && e.Verb == "create" && e.Code == 403 &&
				e.User == "system:serviceaccount:kube-system:replicaset-controller"
		})
		require.NoError(s, err)
		s.Say("the API server has refused %d creations so far, of 200 that are wanted", len(refused))
		assert.NotEmpty(s, refused)
		assert.Less(s, len(refused), 20, "each try begins with one pod")
	})

	l.Step("While the cache lags by two seconds, no pod is created twice", func(s *lab.Step) {
		s.Stop(kcm)
		slow := s.Start("slow", slices.Concat(lab.QuickLease, []string{"--kubeconfig=" + s.SlowWatches(2*time.Second)})...)
		s.Kubectl("scale -n web replicaset web --replicas=8")
		s.Await("8 pods were created", func(context.Context) (bool, string, error) {
			changes, err := recording.Changes()
			count := len(history.Now(changes).Objects("pods"))
			return count >= 8, fmt.Sprintf("%d pods", count), err
		})
		s.Kubectl("annotate -n web replicaset web look=again")
		s.Say("The set was changed, so the loop looks at it. Its cache has 3 pods, and 5 that it expects.")
		if !lab.Reference() { // kcm alone shows its expectations
			s.Say("%s", s.AwaitAnswer(slow, "/debug/controllers/replicaset-controller", s.Token(), 200))
		}
		awaitReady(s, "web", 8)
		s.Always(recording, "never more than 8 pods for a ReplicaSet of 8", atMost(8))
		s.Stop(slow)
		s.Say("From here on it may make more requests a second than the 20 that it makes by default.")
		kcm = s.Start("kcm-again", slices.Concat(lab.QuickLease, []string{"--kube-api-qps=1000", "--kube-api-burst=2000"})...)
		s.AwaitLog(kcm, "[Ss]uccessfully acquired lease")
	})

	l.Step("The API server goes away while a set grows, and comes back", func(s *lab.Step) {
		s.OnlyEmbedded("the node's kubelet starts the API server again, in its own time")
		s.Kubectl("scale -n web replicaset web --replicas=60")
		require.NoError(s, l.Cluster.Kill(s.Context(), cluster.APIServer))
		s.Say("the API server was killed")
		require.NoError(s, l.Cluster.Restart(s.Context(), cluster.APIServer))
		s.Say("and has been started again")
		awaitReady(s, "web", 60)
		s.Always(recording, "no pod of the set was without an owner, but for the one that we released", func(state history.State) error {
			for _, pod := range state.Pods() {
				if len(pod.OwnerReferences) == 0 && pod.Name != first {
					return fmt.Errorf("%s has no owner", pod.Name)
				}
			}
			return nil
		})
	})

	l.Step("A set grows to 500 pods", func(s *lab.Step) {
		s.OnlyEmbedded("the node has room for 110 pods")
		begin := time.Now()
		s.Kubectl("scale -n web replicaset web --replicas=500")
		awaitReady(s, "web", 500)
		s.Say("%.0f pods per second", 440/time.Since(begin).Seconds())
		s.Always(recording, "never more than 500 pods", atMost(500))
	})
}

// atMost fails for a state in which there are more pods that run or are to run.
func atMost(limit int) func(history.State) error {
	return func(state history.State) error {
		active := slices.DeleteFunc(state.Pods(), func(pod *corev1.Pod) bool { return !controller.IsPodActive(pod) })
		if len(active) > limit {
			return fmt.Errorf("%d pods", len(active))
		}
		return nil
	}
}
