package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// The directory of the cluster whose files the node shares, on the host and in the node.
const (
	sharedName = "shared"
	sharedPath = "/lab"
)

var workers = pflag.Int("workers", 0, "how many nodes a kind cluster has beside that of the control plane")

// config is the cluster that kind is to create: a node, which shares the directory shared with the host, and workers.
func config(name, image, shared string) *v1alpha4.Cluster {
	return &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     name,
		Nodes: append([]v1alpha4.Node{{
			Role:        v1alpha4.ControlPlaneRole,
			Image:       image,
			ExtraMounts: []v1alpha4.Mount{{HostPath: shared, ContainerPath: sharedPath}},
		}}, slices.Repeat([]v1alpha4.Node{{Role: v1alpha4.WorkerRole, Image: image}}, *workers)...),
		KubeadmConfigPatches: []string{apiserverPatch, initPatch, kubeletPatch},
	}
}

// apiserverPatch gives the API server the audit log that the embedded cluster has.
const apiserverPatch = `kind: ClusterConfiguration
apiVersion: kubeadm.k8s.io/v1beta4
apiServer:
  extraArgs:
  - {name: audit-policy-file, value: ` + sharedPath + "/" + policyName + `}
  - {name: audit-log-path, value: ` + sharedPath + "/" + auditName + `}
  - {name: audit-log-mode, value: blocking}
  - {name: audit-log-maxsize, value: "0"}
  extraVolumes:
  - {name: lab, hostPath: ` + sharedPath + `, mountPath: ` + sharedPath + `, pathType: Directory}
`

// initPatch has kubeadm apply the patches of podPatches.
const initPatch = `kind: InitConfiguration
apiVersion: kubeadm.k8s.io/v1beta4
patches:
  directory: ` + sharedPath + "/" + patchesName + `
`

// kubeletPatch lets the kubelet run on a host with cgroup v1, which it otherwise refuses.
const kubeletPatch = `kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
failCgroupV1: false
`

// podPatches are kubeadm's patches, by file name, of the pods that it makes for the components that can be frozen.
func podPatches() map[string]string {
	patches := map[string]string{"kube-apiserver+json.yaml": trustNextKey}
	for _, component := range components() {
		patches[component+"+strategic.yaml"] = strings.ReplaceAll(unprobed, "COMPONENT", component)
	}
	return patches
}

// unprobed takes off the liveness probe: the kubelet would restart a component that is frozen.
const unprobed = `apiVersion: v1
kind: Pod
metadata: {name: COMPONENT, namespace: kube-system}
spec:
  containers:
  - name: COMPONENT
    livenessProbe: null
`

// trustNextKey gives the API server a second key to trust. It is no part of apiserverPatch because there each flag has
// one value, and kubeadm's own key must stay.
const trustNextKey = `- op: add
  path: /spec/containers/0/command/-
  value: --service-account-key-file=` + sharedPath + "/" + nextKeyName + `
`
