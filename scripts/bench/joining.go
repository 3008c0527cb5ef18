package main

import (
	"fmt"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// aggregate: aggregated roles come at once, each with the role that it selects, until all have their rule; few, then
// many. Then some of the selected roles change, one after the other, each until the one that selects it has the rule.
func aggregate(t *trial) {
	const changes, rule = 100, `{"rules":[{"verbs":[%q],"apiGroups":[""],"resources":["pods"]}]}`
	t.flags = append([]string{loops("clusterrole-aggregation-controller")}, wideLimits...)
	t.createRoles(0, 1)
	t.lead()
	t.await(t.when("", tally{ruled + "first": 1})) // one that has its rule shows that the loop runs
	for there, n := 1, 10; n <= 1000; there, n = there+n, 100*n {
		t.awaitRest()
		t.measure(fmt.Sprintf("%d aggregated roles come", n), n, func() { t.createRoles(there, n); t.awaitRest() },
			marks{"all with their rule": t.when("", tally{ruled + "first": t.in("")[ruled+"first"] + n})})
		t.measure(fmt.Sprintf("%d changes of a role among %d aggregated ones", changes, there+n), changes, func() {
			for i := range changes {
				verb := fmt.Sprintf("%d-%d", n, i)
				arrived := t.when("", tally{ruled + verb: 1})
				t.patch(&rbacv1.ClusterRole{ObjectMeta: named("", numbered(i%(there+n)))}, fmt.Sprintf(rule, verb))
				t.await(arrived)
			}
		}, nil)
	}
}

func (t *trial) createRoles(from, n int) {
	inParallel(n, manyClients, func(i int) {
		name := numbered(from + i)
		t.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: selector(name).MatchLabels},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"first"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
		t.create(&rbacv1.ClusterRole{ObjectMeta: named("", "all-"+name), AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{*selector(name)}}})
	})
}

// certify: kubelets ask for certificates at once, until all have theirs. Then others ask that have no right to any,
// nothing happens for a minute, and the right is given, until these have theirs, too.
func certify(t *trial) {
	const granted, refused, role = 5000, 1000, "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
	t.flags = append([]string{loops("csrapproving", "csrsigning", "csrcleaner")}, wideLimits...)
	t.lead()
	t.ask("first", "system:masters", 1)
	t.await(t.when("", tally{signed: 1}))
	t.measure("5000 requests for certificates", granted, func() { t.ask("may", "system:masters", granted) },
		marks{"all signed": t.when("", tally{signed: 1 + granted})})
	t.ask("may-not", "system:nodes", refused)
	t.measure("1000 refused requests, for a minute", 1, func() { time.Sleep(time.Minute) }, marks{})
	t.measure("1000 refused requests get the right", refused, func() {
		t.create(&rbacv1.ClusterRoleBinding{ObjectMeta: named("", "may"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole",
			Name: role}, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:nodes"}}})
	}, marks{"all signed": t.when("", tally{signed: 1 + granted + refused})})
}

// ask creates requests as a node that is in a group. Any node may ask.
func (t *trial) ask(node, group string, n int) {
	text, err := os.ReadFile("labs/scenarios/manifests/csr.yaml")
	must(err)
	inParallel(n, manyClients, func(i int) {
		csr := &certificatesv1.CertificateSigningRequest{}
		must(yaml.Unmarshal(text, csr))
		csr.Name = fmt.Sprint(node, "-", i)
		as := t.request("POST", csr).SetHeader("Impersonate-User", "system:node:"+node).SetHeader("Impersonate-Group", group)
		must(as.Body(csr).Do(t.ctx).Error())
	})
}
