package main

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// sharedName is the directory of the cluster whose files the node has in /lab.
const sharedName = "shared"

//go:embed config.yaml
var configYAML []byte

//go:embed joining.yaml
var joiningYAML string

var workers = pflag.Int("workers", 0, "how many nodes a kind cluster has beside that of the control plane")
var joining = pflag.Bool("joining", false, "the CA signs for minutes, and kubeadm's controller manager stays")

// config is the cluster that kind is to create: a node, which shares the directory shared with the host, and workers.
func config(name, image, shared string) *v1alpha4.Cluster {
	c := &v1alpha4.Cluster{}
	if err := yaml.UnmarshalStrict(configYAML, c); err != nil {
		panic(err)
	}
	c.Name, c.Nodes[0].Image, c.Nodes[0].ExtraMounts[0].HostPath = name, image, shared
	c.Nodes = append(c.Nodes, slices.Repeat([]v1alpha4.Node{{Role: v1alpha4.WorkerRole, Image: image}}, *workers)...)
	if *joining {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, joiningYAML)
	}
	return c
}

//go:embed unprobed.yaml
var unprobed string

//go:embed trust-next-key.yaml
var trustNextKey string

// podPatches are kubeadm's patches, by file name, of the pods that it makes for the components that can be frozen.
func podPatches() map[string]string {
	patches := map[string]string{"kube-apiserver+json.yaml": trustNextKey}
	for _, component := range components() {
		patches[component+"+strategic.yaml"] = strings.ReplaceAll(unprobed, "COMPONENT", component)
	}
	return patches
}
