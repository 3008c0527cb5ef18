package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
)

// cluster is a lab cluster, running or not: its directory, and what the processes of this binary make of it.
type cluster struct{ *directory.Cluster }

const (
	etcdName      = "etcd"
	apiserverName = "kube-apiserver"
	schedulerName = "kube-scheduler"
	kwokName      = "kwok"
)

// componentNames are the processes that the supervisor runs, in the order in which they need each other.
var componentNames = []string{etcdName, apiserverName, schedulerName, kwokName}

const (
	// serviceIP is the address of the Service kubernetes, the first of the first range.
	serviceIP = "10.96.0.1"
	// serviceCIDRs are the ranges of IPv4 and IPv6. A Service has an address of the first only, unless it asks for both.
	serviceCIDRs = "10.96.0.0/16,fd00:10:96::/108"
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
	"kwok": {Name: "kwok", Groups: []string{"system:masters"}},
}

// endpoints are the ports that a cluster's processes listen on, all on 127.0.0.1.
type endpoints struct{ etcd, etcdPeer, etcdHealth, apiserver, scheduler int }

// pickEndpoints picks different ports that are free. They are below the range from which Linux and macOS take the ports
// of outgoing connections, so that none of those takes one between the moment it is picked and the moment it is bound.
func pickEndpoints() (endpoints, error) {
	picked := map[int]bool{}
	for tries := 0; len(picked) < 5; tries++ {
		port := 20_000 + rand.IntN(12_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			picked[port] = true
			listener.Close()
		} else if tries > 200 {
			return endpoints{}, fmt.Errorf("no free port on 127.0.0.1: %w: end other programs that listen there", err)
		}
	}
	p := slices.Collect(maps.Keys(picked))
	return endpoints{p[0], p[1], p[2], p[3], p[4]}, nil
}

func loopback(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// arguments are the command lines of the components.
func (c cluster) arguments(p endpoints) map[string][]string {
	return map[string][]string{
		etcdName: {
			"--name=lab",
			"--initial-cluster=lab=" + loopback(p.etcdPeer),
			"--data-dir=" + c.etcdData(),
			"--listen-client-urls=" + loopback(p.etcd),
			"--advertise-client-urls=" + loopback(p.etcd),
			"--listen-peer-urls=" + loopback(p.etcdPeer),
			"--initial-advertise-peer-urls=" + loopback(p.etcdPeer),
			fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", p.etcdHealth),
			"--client-cert-auth",
			"--trusted-ca-file=" + c.PKI("etcd-ca.crt"),
			"--cert-file=" + c.PKI("etcd.crt"),
			"--key-file=" + c.PKI("etcd.key"),
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + c.PKI("etcd-ca.crt"),
			"--peer-cert-file=" + c.PKI("etcd.crt"),
			"--peer-key-file=" + c.PKI("etcd.key"),
			"--log-level=warn",
			// A lab cluster need not survive a power cut, and a sync costs milliseconds for each write.
			"--unsafe-no-fsync",
			// A lab cluster that is used for days stays below 2 GiB by far.
			"--quota-backend-bytes=2147483648",
			"--auto-compaction-mode=periodic",
			"--auto-compaction-retention=5m",
			// A member alone has no election to win and nobody to wait for.
			"--heartbeat-interval=10",
			"--election-timeout=100",
			"--snapshot-count=10000",
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
			"--manage-nodes-with-label-selector=" + kubelet + "=" + speaks,
			"--cidr=10.244.0.0/16",
			"--node-ip=172.18.0.2",
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

// etcdData is the directory of etcd's data.
func (c cluster) etcdData() string { return c.Path("etcd", "data") }

// auditPolicy is in a file of its own because labs/cluster gives it to kind as well.
//
//go:embed audit-policy.yaml
var auditPolicy string

// schedulerConfig is for a scheduler that is alone and may be quick.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %s
  qps: 1000
  burst: 2000
`

// writeConfig writes the configuration files of the components.
func (c cluster) writeConfig() error {
	kwok, err := kwokConfiguration()
	for name, content := range map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.yaml":    fmt.Sprintf(schedulerConfig, c.Kubeconfigs["scheduler"]),
		"kwok.yaml":         kwok,
	} {
		err = errors.Join(err, os.WriteFile(c.Path("config", name), []byte(content), 0o600))
	}
	return err
}

// writeKubeconfigs writes a kubeconfig for each user, with certificates inside, so that each is a file of its own that
// can be handed around.
func (c cluster) writeKubeconfigs(p *pki.Credentials) (err error) {
	for user, path := range c.Kubeconfigs {
		pair := p.Clients[user]
		config := kubeconfig.CreateWithCerts(c.Server, "lab", user, p.CA, pair.Key, pair.Cert)
		err = errors.Join(err, clientcmd.WriteToFile(*config, path))
	}
	return err
}
