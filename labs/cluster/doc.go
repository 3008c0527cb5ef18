// Package cluster gives tests, labs and the demo a Kubernetes control plane to run controllers on.
//
// [Start] starts what CLUSTER in the environment names, attached to the calling process, in a directory of its own.
// Without it, that is the embedded lab cluster (bin/labcluster: etcd, kube-apiserver, kube-scheduler, and kwok for the
// nodes). Start never uses the cluster that `make cluster` has left running: two controller managers on one cluster
// fight over the same objects.
//
// What is guaranteed:
//   - When Start returns, the nodes are Ready, and a pod that is created is scheduled and, about a second later, Ready.
//   - TLS and RBAC are on. Controllers get the same permissions as in a cluster that kubeadm made.
//   - The cluster ends when Close is called, when the context given to Start ends, and when the calling process ends in
//     whatever way, SIGKILL included. It leaves no process behind and, after Close, no file.
//   - Any number of clusters run side by side; all they listen on are free loopback ports.
//
// What is not:
//   - No controller manager runs. Namespaces stay Terminating, pods need a ServiceAccount that somebody created, and
//     nobody but kwok touches nodes, until the caller starts kcm or the original ([Cluster.Reference]).
//   - No container runs: kwok plays the kubelet. There are no logs, no exec, no network between pods. What a pod does
//     is told by its annotations or by its container's flags, see labs/controlplane/README.md.
//   - Nothing is durable. etcd does not sync to disk: a cluster survives the kill of any component, but no power cut.
//
// With CLUSTER=kind it is a kind cluster, which needs Docker or Podman. What differs there:
//   - Containers run, those of the images web:1, web:2 and web:3 of labs/web above all, which are loaded into the node.
//     The node has room for 110 pods.
//   - The control plane is kubeadm's, in the one node. kind's own controller manager has run until DNS was up, so that
//     the first namespaces have what it creates; then it was taken away, and its Lease is free. In the cluster of
//     scripts/kubeadm-never-notices it is kcm that kubeadm runs.
//   - A component that crashes is started again by the kubelet; one that was killed by us is not. Etcd can be
//     frozen, but not killed: the kubelet would take minutes to start it again.
//   - It stays if bin/kindcluster, which would remove it, is killed itself: kind has it under a name that begins with
//     kcm-book.
//   - The node image is that of kind's release for our minor version. KIND_NODE_IMAGE in the environment names another.
package cluster
