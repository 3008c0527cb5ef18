package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// PodControl creates and deletes pods on behalf of an owner, and tells the
// owner's user about each by an event on the owner.
//
// Users read the errors of Create and Delete in conditions and events, and
// tools match them, so they say what the original's say.
type PodControl interface {
	// Create creates the pod and returns it as the API server stored it. The
	// error is the API server's own.
	Create(ctx context.Context, owner runtime.Object, pod *corev1.Pod) (*corev1.Pod, error)
	// Delete asks for the pod's deletion, in the version that is given and no
	// other. When there is no such pod any more, see [IsGone], or the pod is in
	// another version by now, it returns the API server's NotFound or Conflict
	// and records no event: it is for the caller to say whether that matters.
	Delete(ctx context.Context, owner runtime.Object, pod *corev1.Pod) error
	// Read returns the pod as the API server has it. The error is NotFound when
	// it is gone, also if another one has its name.
	Read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	// Patch sends a strategic merge patch and returns the patched pod.
	Patch(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error)
}

// Reasons of the events on a pod's owner. The two that tell of a failure are
// also reasons of the ReplicaFailure condition.
const (
	SuccessfulCreate = "SuccessfulCreate"
	FailedCreate     = "FailedCreate"
	SuccessfulDelete = "SuccessfulDelete"
	FailedDelete     = "FailedDelete"
)

// PodFromTemplate returns the pod that owner creates from a template: labels,
// annotations, finalizers and spec are the template's, the controller is the
// owner, and the API server completes the name.
func PodFromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, kind schema.GroupVersionKind) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    owner.GetName() + "-",
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// NewPodControl returns the PodControl that works on the API server.
func NewPodControl(client kubernetes.Interface, recorder record.EventRecorder) PodControl {
	return recoveringPods{&podControl{client: client, recorder: recorder}}
}

type podControl struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
}

// errNoLabels refuses a pod that its owner could not find again by labels.
var errNoLabels = errors.New("unable to create pods, no labels")

func (c *podControl) Create(ctx context.Context, owner runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	if len(pod.Labels) == 0 {
		return nil, errNoLabels
	}
	created, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(4).Info("Created pod", "pod", klog.KObj(created))
		c.recorder.Eventf(owner, corev1.EventTypeNormal, SuccessfulCreate, "Created pod: %v", created.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The owner goes too, and the namespace takes no new events.
	case ctx.Err() != nil:
		// The loop is being stopped. That is nothing for the owner's user.
	default:
		c.recorder.Eventf(owner, corev1.EventTypeWarning, FailedCreate, "Error creating: %v", err)
	}
	return created, err
}

func (c *podControl) Delete(ctx context.Context, owner runtime.Object, pod *corev1.Pod) error {
	klog.FromContext(ctx).V(2).Info("Deleting pod", "pod", klog.KObj(pod))
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	switch {
	case err == nil:
		c.recorder.Eventf(owner, corev1.EventTypeNormal, SuccessfulDelete, "Deleted pod: %v", pod.Name)
		return nil
	case IsGone(err), HasChanged(err), ctx.Err() != nil:
		return err
	default:
		c.recorder.Eventf(owner, corev1.EventTypeWarning, FailedDelete, "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
}

// Read lists, because the accounts of the loops may list pods and not get them.
func (c *podControl) Read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()
	list, err := c.client.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: named})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].UID == pod.UID {
			return &list.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
}

func (c *podControl) Patch(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	pods := c.client.CoreV1().Pods(pod.Namespace)
	return pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// recoveringPods is a PodControl of which a creation that panics is one that has
// failed: owners keep books of what became of each. Whoever deletes pods recovers where
// it keeps the book of deletions.
type recoveringPods struct{ PodControl }

func (c recoveringPods) Create(ctx context.Context, owner runtime.Object, pod *corev1.Pod) (created *corev1.Pod, err error) {
	create := func() (err error) {
		created, err = c.PodControl.Create(ctx, owner, pod)
		return err
	}
	err = Recovered(ctx, create, "pod", klog.KObj(pod))()
	return created, err
}
