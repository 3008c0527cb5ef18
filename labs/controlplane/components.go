package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
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

// serviceIP is the address of the Service kubernetes, the first of the first range in components.yaml.
const serviceIP = "10.96.0.1"

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

// commandLines has ${variables} of the cluster.
//
//go:embed components.yaml
var commandLines []byte

// arguments are the command lines of the components.
func (c cluster) arguments(p endpoints) (all map[string][]string, err error) {
	variables := map[string]any{"dir": c.Dir, "etcd": p.etcd, "etcdPeer": p.etcdPeer, "etcdHealth": p.etcdHealth,
		"apiserver": p.apiserver, "scheduler": p.scheduler}
	err = yaml.Unmarshal(commandLines, &all)
	for _, flags := range all {
		for i, flag := range flags {
			flags[i] = os.Expand(flag, func(name string) string { return fmt.Sprint(variables[name]) })
		}
	}
	return all, err
}

// auditPolicy is in a file of its own because labs/cluster gives it to kind as well.
//
//go:embed audit-policy.yaml
var auditPolicy string

//go:embed scheduler.yaml
var schedulerConfig string

func (c cluster) writeConfig() (err error) {
	for name, content := range map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.yaml":    schedulerConfig,
		"kwok.yaml":         kwokConfiguration(),
	} {
		err = errors.Join(err, os.WriteFile(c.Path("config", name), []byte(content), 0o600))
	}
	return err
}

//go:embed kwok
var kwokFiles embed.FS

//go:embed kwok/lab.jq
var labDefinitions string

// jqComment is a line that would, in one line with all others, make the rest of them a comment too.
var jqComment = regexp.MustCompile(`(?m)^\s*#.*$`)

// kwokConfiguration returns kwok's configuration: its options, and what nodes and pods do when. kwok cannot load jq
// modules, so an expression that begins with an include of lab.jq gets its definitions in place of that.
func kwokConfiguration() (all string) {
	// An expression stands on one line, between single quotes.
	line := strings.Join(strings.Fields(jqComment.ReplaceAllString(labDefinitions, "")), " ")
	include := strings.NewReplacer(
		`include "lab";`, strings.ReplaceAll(line, "'", "''"),
		"KUBERNETES_VERSION", version.Get().GitVersion,
	)
	names, _ := fs.Glob(kwokFiles, "kwok/*.yaml") // the pattern is well-formed
	for _, name := range names {
		content, _ := kwokFiles.ReadFile(name) // it is there
		all += "---\n" + include.Replace(string(content))
	}
	return all
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
