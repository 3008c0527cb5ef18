package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/play"
)

// PlaySteps plays steps with all loops of a manager. An error is one of the lab,
// and says nothing about the manager.
func (p *Player) PlaySteps(ctx context.Context, m *play.Manager, steps []Step) (*Result, error) {
	s := &stage{Player: p, manager: m, model: NewModel(), pace: 10 * every}
	s.elects = slices.ContainsFunc(steps, func(s Step) bool { return s.Fault.Name == "freeze" })
	s.users.deleted = map[types.UID]bool{}
	s.workload = &Workload{
		Name: "chaos", Loops: m.Loops, Bare: true,
		Watched:  append(theThree[:3:3], "replicationcontrollers", "namespaces", "serviceaccounts", "configmaps"),
		Recorded: []string{"replicationcontrollers", "serviceaccounts", "configmaps"},
		play:     func(ctx context.Context, s *stage) error { return s.playSteps(ctx, steps) },
	}
	s.wrong = func(string) (string, error) {
		world, err := s.world()
		if err != nil {
			return "", err
		}
		return strings.Join(s.model.Differences(world), "\n"), nil
	}
	result, err := s.perform(ctx)
	if err != nil {
		return nil, fmt.Errorf("chaos with %s: %w", m.Name, err)
	}
	return result, nil
}

func (s *stage) playSteps(ctx context.Context, steps []Step) error {
	for _, step := range steps {
		if err := pause(ctx, step.Pause); err != nil {
			return err
		}
		if !s.model.Can(step) {
			continue
		}
		s.did(step.String())
		if err := actNamed(step.Act).play(s, ctx, step); err != nil {
			return fmt.Errorf("step %s: %w", step, err)
		}
		s.model.Then(step)
	}
	s.lift()
	return s.catchUp(ctx)
}

// lift ends all faults. A leader that is still frozen goes on.
func (s *stage) lift() {
	s.did("there are no more faults")
	s.traffic.arm(Fault{})
	s.traffic.mu.Lock()
	wake := s.traffic.onWrite
	s.traffic.onWrite = nil
	s.traffic.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// insist does something until it is done: the API server may be away, or what is
// to be made anew still there. What is not there any more is no error.
func (s *stage) insist(ctx context.Context, what string, do func(ctx context.Context) error) error {
	err := await.Until(ctx, 5*every, patience, what, func(ctx context.Context) error {
		if err := do(ctx); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return vain{err}
	}
	return err
}

// insistOnMaking makes something that nobody else makes: if it is there, the
// answer was lost.
func (s *stage) insistOnMaking(ctx context.Context, what string, do func(ctx context.Context) error) error {
	return s.insist(ctx, what, func(ctx context.Context) error {
		if err := do(ctx); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

func (s *stage) api(resource string) dynamic.ResourceInterface {
	return s.dynamic.Resource(recordable[resource]).Namespace(s.namespace)
}

// stepAnnotation tells which step has made an object.
const stepAnnotation = "lab.kcm-book.io/step"

// create makes an app. One that goes has to be gone before.
func (s *stage) create(ctx context.Context, step Step) error {
	object, err := manifest(step)
	if err != nil {
		return err
	}
	return s.insist(ctx, step.App+" is made", func(ctx context.Context) error {
		_, err := s.api(kindOf(step.App)).Create(ctx, object, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there, getErr := s.api(kindOf(step.App)).Get(ctx, step.App, metav1.GetOptions{})
		if getErr == nil && there.GetAnnotations()[stepAnnotation] == strconv.Itoa(step.Number) {
			return nil // the answer was lost
		}
		return err
	})
}

func manifest(step Step) (*unstructured.Unstructured, error) {
	template, err := templateOf(step)
	if err != nil {
		return nil, err
	}
	kind := map[string][2]string{
		"deployments": {"apps/v1", "Deployment"}, "replicasets": {"apps/v1", "ReplicaSet"}, "replicationcontrollers": {"v1", "ReplicationController"},
	}[kindOf(step.App)]
	its := fields{appLabel: step.App}
	spec := fields{"replicas": int64(step.Replicas), "template": template, "selector": fields{"matchLabels": its}}
	switch kindOf(step.App) {
	case "deployments":
		spec["strategy"], spec["revisionHistoryLimit"] = strategy(step.Strategy), int64(historyLimit)
	case "replicationcontrollers":
		spec["selector"] = its
	}
	metadata := fields{"name": step.App, "labels": its, "annotations": fields{stepAnnotation: strconv.Itoa(step.Number)}}
	return &unstructured.Unstructured{Object: fields{"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}}, nil
}

func templateOf(step Step) (fields, error) {
	template := podTemplate(step.Image, step.Image != neverReady)
	template.Labels[appLabel] = step.App
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
}

// strategy is that of a name, surge/unavailable or Recreate.
func strategy(name string) fields {
	surge, unavailable, rolling := strings.Cut(name, "/")
	if !rolling {
		return fields{"type": name, "rollingUpdate": nil}
	}
	return fields{"type": "RollingUpdate", "rollingUpdate": fields{"maxSurge": intOrPercent(surge), "maxUnavailable": intOrPercent(unavailable)}}
}

func intOrPercent(text string) any {
	if value := intstr.Parse(text); value.Type == intstr.Int {
		return int64(value.IntVal)
	}
	return text
}

func imagePatch(step Step) any {
	template := podTemplate(step.Image, step.Image != neverReady)
	return fields{"template": fields{"metadata": fields{"annotations": template.Annotations}, "spec": fields{"containers": template.Spec.Containers}}}
}

// patching returns what patches an app's spec.
func patching(spec func(Step) any) func(*stage, context.Context, Step) error {
	return func(s *stage, ctx context.Context, step Step) error {
		return s.patch(ctx, kindOf(step.App), step.App, fields{"spec": spec(step)})
	}
}

func (s *stage) patch(ctx context.Context, resource, name string, patch any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return s.insist(ctx, name+" is patched", func(ctx context.Context) error {
		_, err := s.api(resource).Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
		return err
	})
}

func (s *stage) remove(ctx context.Context, step Step) error {
	return s.insist(ctx, step.App+" is deleted", func(ctx context.Context) error {
		return s.api(kindOf(step.App)).Delete(ctx, step.App, metav1.DeleteOptions{PropagationPolicy: &step.Policy})
	})
}

// deleting returns what deletes something that the loops make anew.
func deleting(resource, name string) func(*stage, context.Context, Step) error {
	return func(s *stage, ctx context.Context, _ Step) error {
		return s.insist(ctx, name+" is deleted", func(ctx context.Context) error {
			return s.api(resource).Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
}

func (s *stage) awaitApp(ctx context.Context, step Step) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	return s.insist(ctx, step.App+" is as it is to be", func(context.Context) error {
		world, err := s.world()
		if err != nil {
			return await.Fatal(err)
		}
		if wrong := s.model.app(step.App).differences(world); len(wrong) > 0 {
			return errors.New(strings.Join(wrong, "\n"))
		}
		return nil
	})
}

// pick returns one of the objects with a label that stay and have an owner or
// not, or nil.
func (s *stage) pick(ctx context.Context, resource, label string, owned bool, which int) (*unstructured.Unstructured, error) {
	list, err := s.api(resource).List(ctx, metav1.ListOptions{LabelSelector: appLabel + "=" + label})
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		return !stays(&o) || (metav1.GetControllerOf(&o) != nil) != owned
	})
	if len(all) == 0 {
		return nil, nil
	}
	return &all[which%len(all)], nil
}

func (s *stage) deletePod(ctx context.Context, step Step) error {
	return s.insist(ctx, "a pod of "+step.App+" is deleted", func(ctx context.Context) error {
		pod, err := s.pick(ctx, "pods", step.App, true, step.Which)
		if err != nil || pod == nil {
			return err
		}
		uid := pod.GetUID()
		s.mu.Lock()
		s.users.deleted[uid] = true
		s.mu.Unlock()
		return s.api("pods").Delete(ctx, pod.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
}

// relabelling returns what takes an app's pod or ReplicaSet out by its label, or
// in again.
func relabelling(resource string, out bool) func(*stage, context.Context, Step) error {
	return func(s *stage, ctx context.Context, step Step) error {
		from, to := step.App+outSuffix, step.App
		if out {
			from, to = to, from
		}
		var picked *unstructured.Unstructured
		err := s.insist(ctx, "one of the "+resource+" of "+step.App+" is picked", func(ctx context.Context) (err error) {
			picked, err = s.pick(ctx, resource, from, out, step.Which)
			return err
		})
		if err != nil || picked == nil {
			return err
		}
		return s.patch(ctx, resource, picked.GetName(), fields{"metadata": fields{"labels": fields{appLabel: to}}})
	}
}

func (s *stage) addPod(ctx context.Context, step Step) error {
	template, err := templateOf(Step{App: step.App, Image: images[0]})
	if err != nil {
		return err
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(fmt.Sprintf("%s-added-%d", step.App, step.Number))
	return s.insistOnMaking(ctx, pod.GetName()+" is made", func(ctx context.Context) error {
		_, err := s.api("pods").Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// renewNamespace deletes the namespace, and makes it anew when it is gone. Until
// then the invariants do not count.
func (s *stage) renewNamespace(ctx context.Context, _ Step) error {
	namespaces := s.client.CoreV1().Namespaces()
	var former types.UID
	var emptied span
	return s.insist(ctx, "the namespace is made anew", func(ctx context.Context) error {
		namespace, err := namespaces.Get(ctx, s.namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
			if _, err = namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err == nil {
				err = errors.New("it is made")
			}
			return err
		case err != nil:
			return err
		case former == "":
			former = namespace.UID
			list, err := namespaces.List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				former = ""
				return err
			}
			emptied.from = versionOf(list.ResourceVersion)
		case namespace.UID != former:
			emptied.to = versionOf(namespace.ResourceVersion)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.users.emptied = append(s.users.emptied, emptied)
			return nil
		}
		if stays(namespace) {
			err = namespaces.Delete(ctx, s.namespace, metav1.DeleteOptions{})
		}
		if err == nil || apierrors.IsNotFound(err) {
			err = fmt.Errorf("it is still there: %v", namespace.Status.Conditions)
		}
		return err
	})
}

// versionOf is a resourceVersion as a number, as [history.Change] has it.
func versionOf(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err) // history reads them as numbers, too
	}
	return version
}

// concerning returns the changes of objects of apps. A story of chaos that told all
// would tell nothing.
func concerning(changes []history.Change, apps []string) []history.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c history.Change) bool {
		return !slices.Contains(apps, strings.TrimSuffix(c.Object.GetLabels()[appLabel], outSuffix))
	})
}

// tellChaos gives each finding of a run of chaos the story of those apps that it
// is about.
func (s *stage) tellChaos(result *Result, changes []history.Change) {
	for i, f := range result.Findings {
		var apps []string
		for _, a := range s.model.Apps {
			if strings.Contains(f.Says, a.Name) {
				apps = append(apps, a.Name)
			}
		}
		until := len(changes)
		if f.at > 0 {
			until = f.at
		}
		result.Findings[i].Story = s.story(concerning(changes[:until], apps), nil)
	}
}
