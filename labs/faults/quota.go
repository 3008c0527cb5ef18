package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// limits are those of quotas, by the quotas' names.
type limits map[string]corev1.ResourceList

var (
	limitsToUseUp = limits{
		"pods":       {corev1.ResourcePods: resource.MustParse("3")},
		"configmaps": {"count/configmaps": resource.MustParse("2")},
	}
	// limitsOfBursts has one that never gets a sum, for there are no widgets.
	limitsOfBursts = limits{
		"pods": {corev1.ResourcePods: resource.MustParse("10"), "count/widgets.example.com": resource.MustParse("5")},
		"all":  {corev1.ResourcePods: resource.MustParse("40"), "count/configmaps": resource.MustParse("5")},
	}
)

// useUp uses quotas up, and again when a pod has ended, when one has gone, and
// when a ConfigMap has.
func useUp(ctx context.Context, s *stage) error {
	pod, configMap := s.creating("pod"), s.creating("configmap")
	for _, do := range []func(context.Context) error{
		s.createQuotas(limitsToUseUp), s.counted,
		pod("ends"), pod("goes"), pod("stays"), s.oneMore("pod"),
		s.running, s.endPod("ends"), pod("comes-for-ends"), s.oneMore("pod"), s.counted,
		s.deleting("pod", "goes"), pod("comes-for-goes"), s.oneMore("pod"), s.counted,
		configMap("goes"), configMap("stays"), s.oneMore("configmap"), s.counted,
		s.deleting("configmap", "goes"), configMap("comes-for-goes"), s.oneMore("configmap"), s.counted,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// createInBursts has many more objects made than quotas allow, by clients that do
// not wait for each other, while what is there is deleted. In the end all goes.
func createInBursts(ctx context.Context, s *stage) error {
	for _, do := range []func(context.Context) error{
		s.createQuotas(limitsOfBursts), s.counted, s.burst("first"), s.counted, s.burst("second"), s.counted, s.deleteAll, s.counted,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// burst is 12 clients that try to make 10 pods and 5 ConfigMaps each, and delete
// one of both after each third of that.
func (s *stage) burst(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.did("create 120 pods and 60 configmaps, and delete some")
		clients, ctx := errgroup.WithContext(ctx)
		for client := range 12 {
			clients.Go(func() error {
				for i := range 15 {
					kind := []string{"pod", "pod", "configmap"}[i%3]
					made := func(n int) string { return fmt.Sprintf("%s-%d-%d", name, client, n) }
					// Most are refused, and what is not made is not there to be deleted.
					_ = s.make(ctx, kind, made(i))
					if i%5 == 4 {
						_ = s.api("pods").Delete(ctx, made(i-1), metav1.DeleteOptions{})
						_ = s.api("configmaps").Delete(ctx, made(i-2), metav1.DeleteOptions{})
					}
				}
				return ctx.Err()
			})
		}
		return clients.Wait()
	}
}

func (s *stage) deleteAll(ctx context.Context) error {
	s.did("delete all pods and configmaps")
	for _, resource := range []string{"pods", "configmaps"} {
		err := s.insist(ctx, "delete all "+resource, func(ctx context.Context) error {
			return s.api(resource).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		})
		if err != nil {
			return err
		}
	}
	return s.await(ctx, "all is gone", func(w *World) bool { return len(w.Pods)+len(w.Others["configmaps"]) == 0 })
}

func (s *stage) createQuotas(all limits) func(context.Context) error {
	return func(ctx context.Context) error {
		s.did(fmt.Sprintf("create %d quotas", len(all)))
		for name, hard := range all {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
			err := s.insistOnMaking(ctx, "create quota "+name, func(ctx context.Context) error {
				_, err := s.client.CoreV1().ResourceQuotas(s.namespace).Create(ctx, quota, metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// make makes an object that a quota limits.
func (s *stage) make(ctx context.Context, kind, name string) (err error) {
	if kind == "configmap" {
		_, err = s.client.CoreV1().ConfigMaps(s.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	template := podTemplate("web:1", true)
	template.Annotations["lab.kcm-book.io/stop-after"] = "500ms" // it counts as long as it is there
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = name
	_, err = s.client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// creating makes objects of a kind, each as soon as its quota has room for it.
func (s *stage) creating(kind string) func(name string) func(context.Context) error {
	return func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			what := "create " + kind + " " + name
			s.did(what)
			return s.insistOnMaking(ctx, what, func(ctx context.Context) error { return s.make(ctx, kind, name) })
		}
	}
}

// oneMore tries to make an object for which its quota has no room. That it is
// refused is an invariant.
func (s *stage) oneMore(kind string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.did("try to create one " + kind + " more")
		return s.insist(ctx, "the API server answers", func(ctx context.Context) error {
			if err := s.make(ctx, kind, "one-more"); !apierrors.IsForbidden(err) && !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
	}
}

func (s *stage) running(ctx context.Context) error {
	return s.await(ctx, "the 3 pods are available", func(w *World) bool {
		return len(sorted(w.Pods, isAvailable)) == 3
	})
}

func (s *stage) endPod(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.did("pod " + name + " ends")
		return s.insist(ctx, "pod "+name+" ends", func(ctx context.Context) error {
			_, err := s.client.CoreV1().Pods(s.namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			return err
		})
	}
}

func (s *stage) deleting(kind, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.did("delete " + kind + " " + name)
		return s.insist(ctx, name+" is deleted", func(ctx context.Context) error {
			return s.api(kind+"s").Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
}

// counted waits until the two quotas say what is there.
func (s *stage) counted(ctx context.Context) error {
	return s.await(ctx, "the quotas say what is there", func(w *World) bool {
		for _, quota := range w.Quotas {
			if !equality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) {
				return false
			}
			for name := range quota.Spec.Hard {
				n, exists := w.using(name)
				if used, known := quota.Status.Used[name]; known != exists || used.Value() != n {
					return false
				}
			}
		}
		return len(w.Quotas) == 2
	})
}

// using is how much of what a quota limits is there, if there is such a kind. A pod
// that has ended uses nothing, and one that is on its way out does.
func (w *World) using(name corev1.ResourceName) (n int64, exists bool) {
	switch name {
	case corev1.ResourcePods:
		return int64(len(sorted(w.Pods, func(pod *corev1.Pod) bool { return !hasEnded(pod) }))), true
	case "count/configmaps":
		return int64(len(w.Others["configmaps"])), true
	}
	return 0, false
}

// usage says what a quota's status does.
func usage(quota *corev1.ResourceQuota) string {
	var all []string
	for name, hard := range quota.Status.Hard {
		used := quota.Status.Used[name]
		all = append(all, fmt.Sprintf("%s %s of %s", name, used.String(), hard.String()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// aboveQuota looks at what is there. No user lowers the limits.
func aboveQuota(m *moment) string {
	for _, quota := range m.Quotas {
		for name, hard := range quota.Spec.Hard {
			if n, _ := m.using(name); n > hard.Value() {
				return fmt.Sprintf("%s of %s is %d; %d are allowed", name, quota.Name, n, hard.Value())
			}
		}
	}
	return ""
}
