package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/yaml"
)

// ManagerImage is the name of kcm's image.
const ManagerImage = "kcm:lab"

// WriteManagerImage writes kcm's image, FROM scratch, to a file as `docker save` would. The program is built from the
// module in dir, for the machine that this runs on.
func WriteManagerImage(ctx context.Context, dir, file string) error {
	archive, err := managerArchive(ctx, dir, runtime.GOARCH)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func managerArchive(ctx context.Context, dir, arch string) (io.Reader, error) {
	program, err := buildStatic(ctx, dir, "kcm/cmd/kcm", arch, "-s -w "+os.Getenv("KCM_LDFLAGS"))
	if err != nil {
		return nil, err
	}
	layer, err := programLayer("kcm", program)
	if err != nil {
		return nil, err
	}
	tag, err := name.NewTag(ManagerImage)
	if err != nil {
		return nil, err
	}
	image, err := programImage(layer, arch, "/kcm")
	if err != nil {
		return nil, fmt.Errorf("make the image of kcm: %w", err)
	}
	archive := &bytes.Buffer{}
	return archive, tarball.MultiWrite(map[name.Tag]v1.Image{tag: image}, archive)
}

// StaticPod is a controller manager that the kubelet of a kind cluster's node runs.
type StaticPod struct {
	cluster *kindCluster
	// Name is that of its pod in kube-system.
	Name string
}

// RunStaticPod runs kcm, built from the module in dir, as kubeadm runs the original: by kubeadm's own manifest, in which
// nothing but the image and the command is replaced. It returns when the pod is Ready. The cluster must be a kind cluster
// that Start has made.
func RunStaticPod(ctx context.Context, c Cluster, dir string) (*StaticPod, error) {
	kind, ok := c.(*kindCluster)
	if !ok {
		return nil, errors.New("a static pod needs a kubelet: set CLUSTER=kind")
	}
	archive, err := managerArchive(ctx, dir, kind.arch)
	if err != nil {
		return nil, err
	}
	if err := kind.loadImages(ctx, "kcm", archive); err != nil {
		return nil, err
	}
	const saved = "/etc/kubernetes/" + builtInManager + ".yaml"
	manifest, err := kind.inNode(ctx, "cat", saved)
	if err != nil {
		return nil, err
	}
	replaced, err := withManager([]byte(manifest))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", saved, err)
	}
	// The kubelet is to see the whole file at once.
	const written = "/etc/kubernetes/kcm.yaml"
	if err := nodeutils.WriteFile(kind.node, written, string(replaced)); err != nil {
		return nil, fmt.Errorf("write %s in node %s: %w", written, kind.node, saidBy(err))
	}
	if _, err := kind.inNode(ctx, "mv", written, "/etc/kubernetes/manifests/"+builtInManager+".yaml"); err != nil {
		return nil, err
	}
	p := &StaticPod{cluster: kind, Name: builtInManager + "-" + kind.node.String()}
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
