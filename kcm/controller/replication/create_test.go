package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// podQuota is an API server that has room for so many pods and refuses the
// rest. It answers after a second.
type podQuota struct {
	controller.PodControl
	room    int
	refusal error
	// onCreate is called with each pod that was created, before the answer.
	onCreate func(pod *corev1.Pod)

	mu               sync.Mutex
	created, refused int
}

func (q *podQuota) Create(_ context.Context, _ runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	time.Sleep(time.Second)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.created == q.room {
		q.refused++
		return nil, q.refusal
	}
	q.created++
	if q.onCreate != nil {
		q.onCreate(pod)
	}
	return pod, nil
}

// expects says how many pods a set waits for.
func expects(c *Controller, set *appsv1.ReplicaSet) string {
	if c.expectations.Satisfied(set) {
		return "waits for none"
	}
	var waits []string
	for _, pending := range c.expectations.Pending() {
		waits = append(waits, fmt.Sprintf("waits for %d", pending.Creations))
	}
	return cmp.Or(strings.Join(waits, ", "), "waits for something else")
}

func TestCreatePods(t *testing.T) {
	t.Parallel()
	quota := errors.New("exceeded quota")
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		count, room int
		refusal     error
		// seenAtOnce says that the cache shows each pod before its creation is
		// answered.
		seenAtOnce bool
		want       string
	}{
		"pods that were created are waited for": {
			count: 5, room: 5, want: "5 created, 0 refused; waits for 5",
		},
		"what was refused is not waited for": {
			count: 5, refusal: quota, want: "0 created, 1 refused; waits for none; exceeded quota",
		},
		"after a refusal those that were created are waited for and no others": {
			count: 10, room: 3, refusal: quota, want: "3 created, 4 refused; waits for 3; exceeded quota",
		},
		"a hundred pods that a quota refuses are asked for once": {
			count: 100, refusal: quota, want: "0 created, 1 refused; waits for none; exceeded quota",
		},
		"a pod that the cache shows before the answer comes is not waited for": {
			count: 5, room: 5, seenAtOnce: true, want: "5 created, 0 refused; waits for none",
		},
		"pods that the cache shows before others are refused are not waited for": {
			count: 5, room: 3, seenAtOnce: true, refusal: quota, want: "3 created, 2 refused; waits for none; exceeded quota",
		},
		"in a namespace that is being deleted the set waits for pods that never come": {
			count: 1, refusal: terminating, want: "0 created, 1 refused; waits for 1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := testSet(100)
				c := testController(storeOf(set))
				pods := &podQuota{room: tt.room, refusal: tt.refusal}
				if tt.seenAtOnce {
					pods.onCreate = func(*corev1.Pod) { c.expectations.CreationObserved(set) }
				}
				c.podControl = pods
				err := c.createPods(t.Context(), set, tt.count)
				seen := fmt.Sprintf("%d created, %d refused; %s", pods.created, pods.refused, expects(c, set))
				if err != nil {
					seen += "; " + err.Error()
				}
				assert.Equal(t, tt.want, seen, "asked for %d pods, room for %d", tt.count, tt.room)
			})
		})
	}

	t.Run("what is asked for is expected before the first request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			set := testSet(100)
			c := testController(storeOf(set))
			var expected []string
			c.podControl = &podQuota{room: 5, onCreate: func(*corev1.Pod) { expected = append(expected, expects(c, set)) }}
			assert.NoError(t, c.createPods(t.Context(), set, 5))
			assert.Equal(t, "waits for 5", expected[0], "when the first of five pods is created")
		})
	})

	t.Run("each pod is an object of its own", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			set := testSet(100)
			c := testController(storeOf(set))
			pods := sets.New[*corev1.Pod]()
			c.podControl = &podQuota{room: 5, onCreate: func(pod *corev1.Pod) { pods.Insert(pod) }}
			assert.NoError(t, c.createPods(t.Context(), set, 5))
			assert.Len(t, pods, 5, "objects that were sent for five pods")
		})
	})
}
