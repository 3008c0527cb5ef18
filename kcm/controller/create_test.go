package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// roomFor is an API server that has room for so many pods and refuses the rest.
// The version of what it stores counts from 1.
type roomFor struct {
	PodControl
	room    int
	refusal error

	mu      sync.Mutex
	created []string
}

func (r *roomFor) Create(_ context.Context, _ runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.created) == r.room {
		return nil, r.refusal
	}
	r.created = append(r.created, pod.Name)
	stored := pod.DeepCopy()
	stored.ResourceVersion = strconv.Itoa(len(r.created))
	return stored, nil
}

// namespaceGoes is the answer to whoever creates something in a namespace that is being deleted.
func namespaceGoes() error {
	err := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestPodsAreCreatedForAnOwnerThatExpectsThem(t *testing.T) {
	t.Parallel()
	quota := errors.New("exceeded quota")
	tests := map[string]struct {
		room    int
		refusal error
		want    string
	}{
		"each pod is created once":                                       {room: 4, want: "created [web-0 web-1 web-2 web-3], says 4, expects 4, has written 4"},
		"those that were not created are expected no more":               {refusal: quota, want: "created [], says 0, expects 0, has written nothing; exceeded quota"},
		"what was created before a refusal is expected, and was written": {room: 1, refusal: quota, want: "created [web-0], says 1, expects 1, has written 1; exceeded quota"},
		"in a namespace that is being deleted all stays expected":        {refusal: namespaceGoes(), want: "created [], says 4, expects 4, has written nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}
			var pods []*corev1.Pod
			for i := range 4 {
				pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i)}})
			}
			server, expectations, writes := &roomFor{room: tt.room, refusal: tt.refusal}, NewExpectations(clock.RealClock{}), NewOwnWrites(new(cacheAt("0")))
			expectations.Expect(owner, len(pods))
			created, err := CreatePods(t.Context(), server, expectations, writes, owner, pods)

			slices.Sort(server.created)
			left := 0
			for _, pending := range expectations.Pending() {
				left += pending.Creations
			}
			seen := fmt.Sprintf("created %v, says %d, expects %d, has written %s", server.created, created, left, newestOf(writes, owner))
			if err != nil {
				seen += "; " + err.Error()
			}
			assert.Equal(t, tt.want, seen, "4 pods are asked for, room for %d", tt.room)
		})
	}
}

// newestOf says which version the owner's cache has to show.
func newestOf(writes *OwnWrites, owner metav1.Object) string {
	if version, ok := writes.newest[cache.MetaObjectToName(owner)]; ok {
		return version
	}
	return "nothing"
}
