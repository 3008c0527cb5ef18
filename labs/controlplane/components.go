package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/ports"
)

// cluster is a lab cluster, running or not: its directory, and what the processes of this binary make of it.
type cluster struct{ *directory.Cluster }

// Names of the processes of a cluster.
const (
	supervisorName = directory.Supervisor
	etcdName       = "etcd"
	apiserverName  = "kube-apiserver"
	schedulerName  = "kube-scheduler"
	kwokName       = "kwok"
)

// componentNames are the processes that the supervisor runs, in the order in which they need each other.
var componentNames = []string{etcdName, apiserverName, schedulerName, kwokName}

const (
	// serviceIP is the address of the Service kubernetes, the first of the first range.
	serviceIP = "10.96.0.1"
	// serviceCIDRs are the ranges of IPv4 and IPv6. A Service has an address of the first only, unless it asks for both.
	serviceCIDRs = "10.96.0.0/16,fd00:10:96::/108"
	podCIDR      = "10.244.0.0/16"
	kwokUser     = "kwok"
	nodeIPFormat = "172.18.0.%d"
	// externalIP is what the endpoints of the Service kubernetes say. Loopback, where the API server really is, is not
	// allowed there; this one is reserved for documentation, and nothing connects to it.
	externalIP = "192.0.2.1"
)

// users are the kubeconfigs of a cluster, by name, and who their users are.
var users = map[string]pki.User{
	"admin":     {Name: "kubernetes-admin", Groups: []string{"system:masters"}},
	"scheduler": {Name: "system:kube-scheduler"},
	// RBAC's bootstrap policy knows the controller manager by this name. The groups tell the two apart in the audit log.
	"kcm":       {Name: "system:kube-controller-manager", Groups: []string{"kcm-book:kcm"}},
	"reference": {Name: "system:kube-controller-manager", Groups: []string{"kcm-book:reference"}},
	// kwok acts for all nodes at once, which no built-in role allows.
	"kwok": {Name: kwokUser, Groups: []string{"system:masters"}},
}

// endpoints are the ports that a cluster's processes listen on, all on 127.0.0.1.
type endpoints struct{ etcd, etcdPeer, apiserver, scheduler int }

func pickEndpoints() (endpoints, error) {
	p, err := ports.Pick(4)
	if err != nil {
		return endpoints{}, err
	}
	return endpoints{etcd: p[0], etcdPeer: p[1], apiserver: p[2], scheduler: p[3]}, nil
}

func loopback(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// arguments are the command lines of the components.
func (c cluster) arguments(p endpoints) map[string][]string {
	return map[string][]string{
		etcdName: {
			"--data-dir=" + c.Path("etcd", "data"),
			"--listen-client-url=" + loopback(p.etcd),
			"--listen-peer-url=" + loopback(p.etcdPeer),
			"--trusted-ca-file=" + c.PKI("etcd-ca.crt"),
			"--cert-file=" + c.PKI("etcd.crt"),
			"--key-file=" + c.PKI("etcd.key"),
		},
		apiserverName: c.apiserverArguments(p),
		schedulerName: {
			"--config=" + c.Path("config", "scheduler.yaml"),
			"--authentication-kubeconfig=" + c.Kubeconfigs["scheduler"],
			"--authorization-kubeconfig=" + c.Kubeconfigs["scheduler"],
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", p.scheduler),
			"--tls-cert-file=" + c.PKI("scheduler.crt"),
			"--tls-private-key-file=" + c.PKI("scheduler.key"),
		},
		kwokName: {
			"--kubeconfig=" + c.Kubeconfigs["kwok"],
			"--config=" + c.Path("config", "kwok.yaml"),
			"--manage-all-nodes",
			"--cidr=" + podCIDR,
			"--node-ip=" + fmt.Sprintf(nodeIPFormat, 2),
		},
	}
}

func (c cluster) apiserverArguments(p endpoints) []string {
	return []string{
		"--etcd-servers=" + loopback(p.etcd),
		"--etcd-cafile=" + c.PKI("etcd-ca.crt"),
		"--etcd-certfile=" + c.PKI("apiserver-etcd-client.crt"),
		"--etcd-keyfile=" + c.PKI("apiserver-etcd-client.key"),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.apiserver),
		"--advertise-address=" + externalIP,
		"--tls-cert-file=" + c.PKI("apiserver.crt"),
		"--tls-private-key-file=" + c.PKI("apiserver.key"),
		"--client-ca-file=" + c.PKI("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceCIDRs,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + c.ServiceAccountKey,
		"--service-account-key-file=" + c.PKI("service-account.pub"),
		"--service-account-key-file=" + c.PKI("service-account-next.pub"),
		// The aggregation layer. With it, the ConfigMap extension-apiserver-authentication says what a controller
		// manager needs to know to authenticate its own clients.
		"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.PKI("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.PKI("front-proxy-client.key"),
		"--audit-policy-file=" + c.Path("config", "audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLog,
		// Each event is in the file before the client has its answer.
		"--audit-log-mode=blocking",
		// 0 is for never: the log is one file, however long it gets.
		"--audit-log-maxsize=0",
		// Nobody plays the part of the kubelets' servers, so that logs and exec cannot work. No node has an address of this
		// kind: the API server says so at once, and does not ask the DNS who has a node's name.
		"--kubelet-preferred-address-types=InternalDNS",
	}
}

// environment is what a component gets besides the supervisor's own environment. kwok would read a configuration from the
// user's home directory too.
func (c cluster) environment() []string {
	return []string{"HOME=" + c.Path("config")}
}

// auditPolicy is in a file of its own because labs/cluster gives it to kind as well.
//
//go:embed audit-policy.yaml
var auditPolicy string

// schedulerConfig is for a scheduler that is alone and may be quick.
func (c cluster) schedulerConfig() string {
	return strings.Join([]string{
		"apiVersion: kubescheduler.config.k8s.io/v1",
		"kind: KubeSchedulerConfiguration",
		"leaderElection:",
		"  leaderElect: false",
		"clientConnection:",
		"  kubeconfig: " + c.Kubeconfigs["scheduler"],
		"  qps: 1000",
		"  burst: 2000",
		"",
	}, "\n")
}
