package differential

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/labs/latecache"
)

// namespace is where everything is.
const namespace = "ns"

// server is an API server with its webhooks. A manager talks to it through the client; users, kubelets and the garbage
// collector change its stores themselves.
type server struct {
	deployments *latecache.Store[*appsv1.Deployment]
	replicaSets *latecache.Store[*appsv1.ReplicaSet]
	pods        *latecache.Store[*corev1.Pod]
	client      *fake.Clientset

	named   map[string]int // pods that were ever created, by the beginnings of their names
	webhook webhook
	quota   int // how many pods of a ReplicaSet there may be, no bound if negative: who gets the last of all is a race
	rejects int // how many of the next pods find no room on their node
	fault   fault
	hit     fault // the last one that has hit a write since the last settled state
	crashed bool  // the manager was killed, and no other has taken its place

	// The newest versions that the loop for Deployments has written.
	wroteDeployment, wroteReplicaSet string

	// What the manager has done since it was last asked.
	mu     sync.Mutex
	writes map[string]int // that were done or refused because they were made of something old
	events map[string]int
	log    []string // of writes, in order

	invalid []string // why writes were refused that no API server takes
}

// webhook is what admission does to what a manager writes.
type webhook string

const (
	nothing           webhook = "nothing"
	refusesPods       webhook = "refuses-pods"
	refusesDeletions  webhook = "refuses-deletions"
	marksPods         webhook = "marks-pods"
	dropsRevision     webhook = "drops-revision"
	refusesSets       webhook = "refuses-replicasets"
	namespaceIsEnding webhook = "namespace-is-ending"
)

var webhooks = []webhook{nothing, refusesPods, refusesDeletions, marksPods, dropsRevision, refusesSets, namespaceIsEnding}

// outOfCPU is why a kubelet that has no room fails a pod.
const outOfCPU = "OutOfcpu"

// exceeded is why a pod is refused of which there may be no more.
const exceeded = "exceeded quota"

// fault is what becomes of the next write of a kind.
type fault struct {
	how  string // nothing if empty
	kind string
}

const (
	refused = "refused"
	unsure  = "unsure" // done, and the answer is lost
	crash   = "crash"  // neither this write nor any other of this manager is done
)

var faults = []string{refused, unsure, crash}

// hitKinds are the writes that faults hit. Deletions of pods are not among them: they come in any order, so that the two
// sides could not be hit alike.
var hitKinds = []string{
	"create replicasets", "update replicasets", "update deployments", "update deployments/status",
	"create pods", "patch pods", "update replicasets/status",
}

// failsStep tells whether a sync goes on after it that is yet to write a status.
func (f fault) failsStep() bool {
	return (f.how == refused || f.how == unsure) && !strings.HasSuffix(f.kind, "/status")
}

func newServer() *server {
	s := &server{
		deployments: latecache.NewStore[*appsv1.Deployment](appsv1.Resource("deployments")),
		replicaSets: latecache.NewStore[*appsv1.ReplicaSet](appsv1.Resource("replicasets")),
		pods:        latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		client:      &fake.Clientset{},
		webhook:     nothing, quota: -1,
		named:  map[string]int{},
		writes: map[string]int{}, events: map[string]int{},
	}
	s.client.AddReactor("*", "*", s.answer)
	return s
}

// answer is the answer to a manager's request. The client asks for one at a time.
func (s *server) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		obj, err := s.get(action.GetResource().Resource, action.Name)
		return true, obj, err
	case clienttesting.ListActionImpl:
		return true, s.list(action), nil
	}
	kind := action.GetVerb() + " " + strings.TrimSuffix(action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	if err := s.conflicts(kind, action); err != nil {
		return true, nil, err
	}
	if s.crashed {
		return true, nil, errLost
	}
	if s.fault.how != "" && s.fault.kind == kind {
		how := s.fault.how
		s.fault, s.hit, s.crashed = fault{}, s.fault, how == crash
		s.log = append(s.log, kind+" (lost)")
		if how != unsure {
			return true, nil, errLost
		}
		s.write(kind, action)
		return true, nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	obj, err := s.write(kind, action)
	if err != nil {
		return true, nil, err
	}
	return true, obj, nil
}

var errLost = apierrors.NewInternalError(errors.New("the write was lost"))

// conflicts refuses an update of what has changed since it was read. No fault hits that: the original makes many such
// updates.
func (s *server) conflicts(kind string, action clienttesting.Action) error {
	update, ok := action.(clienttesting.UpdateActionImpl)
	if !ok {
		return nil
	}
	obj := update.Object.(metav1.Object)
	there, err := s.get(action.GetResource().Resource, obj.GetName())
	if err != nil {
		return err
	}
	if there.(metav1.Object).GetResourceVersion() != obj.GetResourceVersion() {
		s.writes[kind]++
		s.log = append(s.log, kind+" "+obj.GetName()+" Conflict")
		return apierrors.NewConflict(action.GetResource().GroupResource(), obj.GetName(), errors.New("the object has been modified"))
	}
	return nil
}

func (s *server) get(resource, name string) (runtime.Object, error) {
	if resource == "deployments" {
		return s.deployments.Get(name)
	}
	return s.replicaSets.Get(name)
}

func (s *server) list(action clienttesting.ListActionImpl) runtime.Object {
	if action.GetResource().Resource == "replicasets" {
		all := &appsv1.ReplicaSetList{}
		for _, rs := range s.replicaSets.List() {
			all.Items = append(all.Items, *rs)
		}
		return all
	}
	all := &corev1.PodList{}
	for _, pod := range s.pods.List() {
		if name, ok := action.ListRestrictions.Fields.RequiresExactMatch("metadata.name"); !ok || name == pod.Name {
			all.Items = append(all.Items, *pod)
		}
	}
	return all
}

// write does a write, unless it is invalid or admission refuses it, and counts those that are done.
func (s *server) write(kind string, action clienttesting.Action) (obj runtime.Object, err error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if err = s.validate(action, nil); err == nil {
			obj, err = s.create(action.Object)
		}
	case clienttesting.UpdateActionImpl:
		if obj, err = s.get(action.Resource.Resource, action.Object.(object).GetName()); err == nil {
			err = s.validate(action, obj.(object))
		}
		if err == nil {
			obj, err = s.update(action.Object, action.Subresource)
		}
	case clienttesting.PatchActionImpl:
		obj, err = s.patch(action)
	case clienttesting.DeleteActionImpl:
		err = s.remove(action)
	default:
		err = fmt.Errorf("this API server knows no %s", kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.writes[kind]++
		s.noteOwn(kind, obj)
	}
	s.log = append(s.log, kind+" "+tell(action)+" "+answered(err))
	return obj, err
}

// validate refuses what the original's API server does not take in the place of what is there.
func (s *server) validate(action interface {
	clienttesting.Action
	GetObject() runtime.Object
}, there object) error {
	obj := action.GetObject().DeepCopyObject().(object)
	if there == nil {
		rest.FillObjectMetaSystemFields(obj)
		obj.SetNamespace(namespace)
		obj.SetName(cmp.Or(obj.GetName(), obj.GetGenerateName()+"0"))
	}
	_, err := admit(action.GetResource(), action.GetSubresource(), obj, there)
	if err != nil {
		s.invalid = append(s.invalid, err.Error())
	}
	return err
}

// noteOwn notes the version of what the loop for Deployments has written.
func (s *server) noteOwn(kind string, obj runtime.Object) {
	switch kind {
	case "create replicasets", "update replicasets", "patch replicasets":
		s.wroteReplicaSet = obj.(*appsv1.ReplicaSet).ResourceVersion
	case "update deployments", "update deployments/status":
		s.wroteDeployment = obj.(*appsv1.Deployment).ResourceVersion
	}
}

func answered(err error) string {
	if err == nil {
		return "done"
	}
	return string(apierrors.ReasonForError(err))
}

// tell tells in a few words what a write wants.
func tell(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		return action.Name
	case clienttesting.PatchActionImpl:
		return action.Name + " " + string(action.Patch)
	case interface{ GetObject() runtime.Object }:
		switch obj := action.GetObject().(type) {
		case *appsv1.Deployment:
			text := fmt.Sprintf("revision %s, %d/%d/%d/%d", obj.Annotations["deployment.kubernetes.io/revision"], obj.Status.Replicas, obj.Status.UpdatedReplicas, obj.Status.ReadyReplicas, obj.Status.AvailableReplicas)
			for _, c := range obj.Status.Conditions {
				text += " " + c.Reason
			}
			return text
		case *appsv1.ReplicaSet:
			return fmt.Sprintf("%s size %d, %v, %d/%d/%d", obj.Name, *obj.Spec.Replicas, obj.Annotations, obj.Status.Replicas, obj.Status.ReadyReplicas, obj.Status.AvailableReplicas)
		case *corev1.Pod:
			return obj.GenerateName
		}
	}
	return ""
}

func (s *server) create(obj runtime.Object) (runtime.Object, error) {
	switch obj := obj.(type) {
	case *appsv1.ReplicaSet:
		if s.webhook == refusesSets {
			return nil, apierrors.NewForbidden(appsv1.Resource("replicasets"), obj.Name, errors.New("a webhook does not want it"))
		}
		if s.webhook == namespaceIsEnding {
			return nil, namespaceEnds(apierrors.NewForbidden(appsv1.Resource("replicasets"), obj.Name, errors.New("it is being terminated")))
		}
		return s.createReplicaSet(obj)
	case *corev1.Pod:
		switch {
		case s.webhook == refusesPods:
			return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("a webhook does not want it"))
		case s.webhook == namespaceIsEnding:
			return nil, namespaceEnds(apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("it is being terminated")))
		case s.quota >= 0 && s.alike(obj.GenerateName) >= s.quota:
			return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(exceeded))
		case s.webhook == marksPods:
			metav1.SetMetaDataAnnotation(&obj.ObjectMeta, "marked", "yes")
		}
		pod, err := s.createPod(obj)
		if err == nil && s.rejects > 0 {
			s.rejects--
			rejected := pod.DeepCopy()
			rejected.Status.Phase, rejected.Status.Reason = corev1.PodFailed, outOfCPU
			done(s.pods.Update(rejected))
		}
		return pod, err
	}
	return nil, fmt.Errorf("this API server does not create a %T", obj)
}

// alike returns how many pods there are whose names begin in the same way.
func (s *server) alike(generateName string) (n int) {
	for _, pod := range s.pods.List() {
		if pod.GenerateName == generateName {
			n++
		}
	}
	return n
}

func namespaceEnds(err *apierrors.StatusError) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

func (s *server) createReplicaSet(rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	rs.Namespace, rs.Generation, rs.CreationTimestamp = namespace, 1, metav1.Now()
	return s.replicaSets.Create(asStored(rs))
}

func (s *server) createPod(pod *corev1.Pod) (*corev1.Pod, error) {
	s.named[pod.GenerateName]++
	pod.Namespace, pod.CreationTimestamp = namespace, metav1.Now()
	pod.Name = fmt.Sprintf("%sp%05d", pod.GenerateName, s.named[pod.GenerateName])
	pod.Status.Phase = corev1.PodPending
	return s.pods.Create(asStored(pod))
}

// asStored returns an object as it is read again. Among other things, times lose what is less than a second.
func asStored[T interface {
	latecache.Object[T]
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}](obj T) T {
	data := done(obj.Marshal())
	again := obj.DeepCopy()
	reflect.ValueOf(again).Elem().SetZero()
	if err := again.Unmarshal(data); err != nil {
		panic(err)
	}
	return again
}

// done stops the test when the API server refuses what the test itself wants.
func done[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

func (s *server) update(obj runtime.Object, subresource string) (runtime.Object, error) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return s.updateDeployment(obj, subresource)
	case *appsv1.ReplicaSet:
		return s.updateReplicaSet(obj, subresource)
	}
	return nil, fmt.Errorf("this API server does not update a %T", obj)
}

// updateDeployment takes the spec, or of the status subresource the status, and counts changes of the spec.
func (s *server) updateDeployment(d *appsv1.Deployment, subresource string) (*appsv1.Deployment, error) {
	there, err := s.deployments.Get(d.Name)
	if err != nil {
		return nil, err
	}
	d = asStored(d)
	if subresource == "status" {
		d.Spec, d.Labels, d.DeletionTimestamp = there.Spec, there.Labels, there.DeletionTimestamp
		if s.webhook == dropsRevision {
			delete(d.Annotations, "deployment.kubernetes.io/revision")
		}
	} else {
		d.Status = there.Status
	}
	if !equality.Semantic.DeepEqual(d.Spec, there.Spec) {
		d.Generation++
	}
	return s.deployments.Update(d)
}

// updateReplicaSet does the same.
func (s *server) updateReplicaSet(rs *appsv1.ReplicaSet, subresource string) (*appsv1.ReplicaSet, error) {
	there, err := s.replicaSets.Get(rs.Name)
	if err != nil {
		return nil, err
	}
	rs = asStored(rs)
	if subresource == "status" {
		rs.Spec = there.Spec
	} else {
		rs.Status = there.Status
	}
	if !equality.Semantic.DeepEqual(rs.Spec, there.Spec) {
		rs.Generation++
	}
	return s.replicaSets.Update(rs)
}

// patch applies a strategic merge patch. A UID in it is a precondition.
func (s *server) patch(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.GetResource().Resource == "pods" {
		pod, err := s.pods.Get(action.Name)
		if err != nil {
			return nil, err
		}
		pod, err = patched(pod, action.Patch)
		if err != nil {
			return nil, err
		}
		return s.pods.Update(pod)
	}
	rs, err := s.replicaSets.Get(action.Name)
	if err != nil {
		return nil, err
	}
	if rs, err = patched(rs, action.Patch); err != nil {
		return nil, err
	}
	return s.replicaSets.Update(rs)
}

func patched[T object](obj T, patch []byte) (T, error) {
	result := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(T)
	data := done(strategicpatch.StrategicMergePatch(done(json.Marshal(obj)), patch, result))
	if err := json.Unmarshal(data, result); err != nil {
		panic(err)
	}
	if result.GetUID() != obj.GetUID() {
		return result, apierrors.NewConflict(corev1.Resource("objects"), obj.GetName(), errors.New("the UID in the patch is another"))
	}
	return result, nil
}

func (s *server) remove(action clienttesting.DeleteActionImpl) error {
	resource := action.GetResource().GroupResource()
	obj, err := s.object(resource.Resource, action.Name)
	if err != nil {
		return err
	}
	if wanted := action.DeleteOptions.Preconditions; wanted != nil &&
		(wanted.UID != nil && *wanted.UID != obj.GetUID() || wanted.ResourceVersion != nil && *wanted.ResourceVersion != obj.GetResourceVersion()) {
		return apierrors.NewConflict(resource, action.Name, errors.New("it has changed"))
	}
	if resource.Resource == "replicasets" {
		return s.replicaSets.Delete(action.Name)
	}
	if s.webhook == refusesDeletions {
		return apierrors.NewForbidden(resource, "", errors.New("a webhook wants to keep it"))
	}
	s.deletePod(obj.(*corev1.Pod))
	return nil
}

func (s *server) object(resource, name string) (metav1.Object, error) {
	if resource == "pods" {
		return s.pods.Get(name)
	}
	return s.replicaSets.Get(name)
}

// deletePod asks for a pod's deletion: one that has a node is marked, and goes when its containers have ended.
func (s *server) deletePod(pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		done(pod, s.pods.Delete(pod.Name))
	default:
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		done(s.pods.Update(asStored(pod)))
	}
}

// podNumber is what createPod has added to a name.
var podNumber = regexp.MustCompile(`-p\d{5}`)

func (s *server) recordEvent(about runtime.Object, kind, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := about.(metav1.Object)
	s.events[fmt.Sprintf("%T %s: %s %s: %s", about, object.GetName(), kind, reason, podNumber.ReplaceAllString(message, "-*"))]++
}

// doings returns what the manager has written, and the events that it has recorded, since the last time.
func (s *server) doings() (writes, events map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.ClearActions()
	writes, events = s.writes, s.events
	s.writes, s.events = map[string]int{}, map[string]int{}
	return writes, events
}
