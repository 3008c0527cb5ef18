package kind

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/yaml"
)

// StaticPod is a controller manager that the kubelet of a kind cluster's node runs.
type StaticPod struct {
	cluster *Cluster
	// Name is that of its pod in kube-system.
	Name string
}

// RunStaticPod runs kcm, built from the module in dir, by kubeadm's own manifest, in which nothing but the image and the
// command is replaced. It returns when the pod is Ready.
func (c *Cluster) RunStaticPod(ctx context.Context, dir string) (*StaticPod, error) {
	image, err := managerImage(ctx, dir, c.arch)
	if err != nil {
		return nil, err
	}
	if err := c.LoadImages(ctx, "kcm", image); err != nil {
		return nil, err
	}
	const saved = aside + builtInManager + ".yaml"
	manifest, err := c.inNode(ctx, "cat", saved)
	if err != nil {
		return nil, err
	}
	replaced, err := withManager([]byte(manifest))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", saved, err)
	}
	// The kubelet is to see the whole file at once.
	const written = aside + "kcm.yaml"
	if err := nodeutils.WriteFile(c.node, written, string(replaced)); err != nil {
		return nil, fmt.Errorf("write %s in node %s: %w", written, c.node, saidBy(err))
	}
	if _, err := c.inNode(ctx, "mv", written, manifests+builtInManager+".yaml"); err != nil {
		return nil, err
	}
	p := &StaticPod{cluster: c, Name: builtInManager + "-" + c.node.String()}
	return p, until(ctx, "the static pod "+p.Name+" is Ready", p.ready)
}

// withManager returns a manifest of kubeadm's with kcm's image and command.
func withManager(manifest []byte) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, err
	}
	if len(pod.Spec.Containers) != 1 || len(pod.Spec.Containers[0].Command) == 0 {
		return nil, errors.New("it has not one container with a command")
	}
	container := &pod.Spec.Containers[0]
	if program := path.Base(container.Command[0]); program != builtInManager {
		return nil, fmt.Errorf("its command is %s", program)
	}
	container.Image = ManagerImage
	container.Command[0] = "/kcm"
	return yaml.Marshal(pod)
}

func (p *StaticPod) ready(ctx context.Context) error {
	pod, err := p.cluster.client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.Spec.Containers[0].Image == ManagerImage {
			return nil
		}
	}
	return fmt.Errorf("its phase is %s", pod.Status.Phase)
}

// Log is what kcm has logged so far.
func (p *StaticPod) Log(ctx context.Context) (string, error) {
	log, err := p.cluster.client.CoreV1().Pods(metav1.NamespaceSystem).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	return strings.TrimSpace(string(log)), err
}
