package cluster

import (
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// The directory of the cluster whose files the node shares, on the host and in the node.
const (
	sharedName = "shared"
	sharedPath = "/lab"
)

// Where labs/cluster/hold is, under the name of each component that it runs, and where a file keeps it from starting that
// component again.
const (
	holdPath = sharedPath + "/" + holdName
	heldPath = sharedPath + "/held"
)

// kindConfig is the cluster that kind is to create: one node, which shares the directory shared with the host.
func kindConfig(name, image, shared string) *v1alpha4.Cluster {
	return &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     name,
		Nodes: []v1alpha4.Node{{
			Role:        v1alpha4.ControlPlaneRole,
			Image:       image,
			ExtraMounts: []v1alpha4.Mount{{HostPath: shared, ContainerPath: sharedPath}},
		}},
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

// podPatches are kubeadm's patches, by file name, of the pods that it makes for the components that can be stopped and
// killed.
func podPatches() map[string]string {
	patches := map[string]string{string(APIServer) + "+json.yaml": trustNextKey}
	for component := range readyURLs {
		patches[string(component)+"+strategic.yaml"] = strings.ReplaceAll(holdPatch, "COMPONENT", string(component))
	}
	return patches
}

// holdPatch has labs/cluster/hold run the component, and takes off the liveness probe: the kubelet would restart a
// component that is frozen.
const holdPatch = `apiVersion: v1
kind: Pod
metadata: {name: COMPONENT, namespace: kube-system}
spec:
  containers:
  - name: COMPONENT
    livenessProbe: null
    env:
    - {name: PATH, value: "` + holdPath + `:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    volumeMounts:
    - {name: lab, mountPath: ` + sharedPath + `}
  volumes:
  - {name: lab, hostPath: {path: ` + sharedPath + `, type: Directory}}
`

// trustNextKey gives the API server a second key to trust. It is no part of apiserverPatch because there each flag has one
// value, and kubeadm's own key must stay.
const trustNextKey = `- op: add
  path: /spec/containers/0/command/-
  value: --service-account-key-file=` + sharedPath + "/" + nextKeyName + `
`
