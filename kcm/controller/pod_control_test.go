package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

func TestPodFromTemplateCopiesTheTemplate(t *testing.T) {
	t.Parallel()
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1", Labels: map[string]string{"set": "only"}}}
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "not-taken",
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{"note": "x"},
			Finalizers:  []string{"example.com/wait"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	untouched := template.DeepCopy()
	pod := PodFromTemplate(template, owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))

	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    "ns",
			GenerateName: "web-",
			Labels:       map[string]string{"app": "web"},
			Annotations:  map[string]string{"note": "x"},
			Finalizers:   []string{"example.com/wait"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	assert.Equal(t, want, pod)

	pod.Labels["app"], pod.Finalizers[0], pod.Spec.Containers[0].Image = "changed", "changed", "changed"
	assert.Equal(t, untouched, template, "a pod must not share memory with the cached template")
}

// newTestPodControl returns a PodControl whose API server answers with err,
// and the channel that its events come from.
func newTestPodControl(err error) (PodControl, chan string) {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old"}})
	if err != nil {
		client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
	recorder := record.NewFakeRecorder(10)
	return NewPodControl(client, recorder), recorder.Events
}

func drain(events chan string) []string {
	close(events)
	var drained []string
	for event := range events {
		drained = append(drained, event)
	}
	return drained
}

var (
	testOwner   = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	errRefused  = errors.New("refused")
	terminating = &apierrors.StatusError{ErrStatus: metav1.Status{
		Message: "being deleted",
		Reason:  metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
	changed  = apierrors.NewConflict(corev1.Resource("pods"), "old", errors.New("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2). The object might have been modified"))
	denied   = webhookerrors.ToStatusErr("policy.example.com", &metav1.Status{Reason: metav1.StatusReasonConflict, Code: 409, Message: "not now"})
	notFound = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "old")
)

func TestPodControlCreateTellsTheOwner(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "web"}
	tests := map[string]struct {
		labels  map[string]string
		answer  error
		wantErr string
		events  []string
	}{
		"created":                  {labels: labels, events: []string{"Normal SuccessfulCreate Created pod: new"}},
		"refused":                  {labels: labels, answer: errRefused, wantErr: "refused", events: []string{"Warning FailedCreate Error creating: refused"}},
		"namespace being deleted":  {labels: labels, answer: terminating, wantErr: terminating.Error()},
		"no labels to be found by": {wantErr: "unable to create pods, no labels"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, events := newTestPodControl(tt.answer)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new", Labels: tt.labels}}
			created, err := pods.Create(context.Background(), testOwner, pod)
			if tt.wantErr != "" {
				assert.EqualError(t, err, tt.wantErr)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "new", created.Name)
			}
			assert.Equal(t, tt.events, drain(events))
		})
	}
}

func TestPodControlDeleteTellsTheOwner(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer  error
		wantErr string
		events  []string
	}{
		"deleted":                        {events: []string{"Normal SuccessfulDelete Deleted pod: old"}},
		"refused":                        {answer: errRefused, wantErr: "unable to delete pods: refused", events: []string{"Warning FailedDelete Error deleting: refused"}},
		"gone":                           {answer: notFound, wantErr: notFound.Error()},
		"changed":                        {answer: changed, wantErr: changed.Error()},
		"refused, and called a conflict": {answer: denied, wantErr: "unable to delete pods: " + denied.Error(), events: []string{"Warning FailedDelete Error deleting: " + denied.Error()}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, events := newTestPodControl(tt.answer)
			err := pods.Delete(context.Background(), testOwner, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old"}})
			if tt.wantErr != "" {
				assert.EqualError(t, err, tt.wantErr)
				assert.ErrorIs(t, err, tt.answer)
			} else {
				assert.NoError(t, err)
			}
			assert.Equal(t, tt.events, drain(events))
		})
	}
}

func TestALoopThatIsBeingStoppedBlamesNobody(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	control, events := newTestPodControl(context.Canceled)
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", Labels: map[string]string{"app": "web"}}}
	_, err := control.Create(ended, owner, pod)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, control.Delete(ended, owner, pod), context.Canceled)
	assert.Empty(t, events)
}

func TestPodControlDeletesThePodInTheVersionThatItIsGivenAndNoOther(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "7", ResourceVersion: "42"}}
	var conditions *metav1.Preconditions
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		conditions = action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		return true, nil, nil
	})
	require.NoError(t, NewPodControl(client, record.NewFakeRecorder(10)).Delete(t.Context(), testOwner, pod))
	assert.Equal(t, &metav1.Preconditions{UID: new(types.UID("7")), ResourceVersion: new("42")}, conditions)
}

func TestPodControlReadsThatPodAndNoOtherOfItsName(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "7", Labels: map[string]string{"new": ""}}})
	pods := NewPodControl(client, record.NewFakeRecorder(10))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "7"}}
	latest, err := pods.Read(t.Context(), pod)
	require.NoError(t, err)
	assert.Contains(t, latest.Labels, "new")
	assert.Equal(t, []string{"list"}, verbs(client), "an account that may not get pods must do")

	pod.UID = "6"
	_, err = pods.Read(t.Context(), pod)
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

// verbs are those of the requests that the client has seen.
func verbs(client *fake.Clientset) (verbs []string) {
	for _, action := range client.Actions() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}
