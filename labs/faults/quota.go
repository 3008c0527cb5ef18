package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// limits are those of the workload's quotas, by their names. Each limits one
// resource: who counts one may still have a late cache of another, and a quota of
// both would then say too little until that is counted again.
var limits = map[string]corev1.ResourceList{
	"pods":       {corev1.ResourcePods: resource.MustParse("3")},
	"configmaps": {"count/configmaps": resource.MustParse("2")},
}

// useUp uses quotas up, and again when a pod has ended, when one has gone, and
// when a ConfigMap has.
func useUp(ctx context.Context, s *stage) error {
	pod, configMap := s.creating("pod"), s.creating("configmap")
	for _, do := range []func(context.Context) error{
		s.createQuotas, s.counted,
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

func (s *stage) createQuotas(ctx context.Context) error {
	s.did("create quotas of 3 pods and of 2 configmaps")
	for name, hard := range limits {
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
		return deleting(kind+"s", name)(s, ctx, Step{})
	}
}

// counted waits until the quotas say what is there.
func (s *stage) counted(ctx context.Context) error {
	return s.await(ctx, "the quotas say what is there", func(w *World) bool {
		for _, quota := range w.Quotas {
			if !equality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) {
				return false
			}
			for name := range quota.Spec.Hard {
				if used, known := quota.Status.Used[name]; !known || used.Value() != w.using(name) {
					return false
				}
			}
		}
		return len(w.Quotas) == len(limits)
	})
}

// using is how much of what a quota limits is there. A pod that has ended uses
// nothing, and one that is on its way out does.
func (w *World) using(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return int64(len(sorted(w.Pods, func(pod *corev1.Pod) bool { return !hasEnded(pod) })))
	}
	return int64(len(w.Others["configmaps"]))
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
			if n := m.using(name); n > hard.Value() {
				return fmt.Sprintf("%s of %s is %d; %d are allowed", name, quota.Name, n, hard.Value())
			}
		}
	}
	return ""
}
