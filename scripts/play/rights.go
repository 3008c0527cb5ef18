package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// accountPrefix is how the API server calls the ServiceAccounts that the loops
// act as, and rolePrefix what Kubernetes calls the roles that it has for them.
const (
	accountPrefix = "system:serviceaccount:kube-system:"
	rolePrefix    = "system:controller:"
)

// right is one of the rights that a rule of a role grants, or that a request needs.
// In a rule a * stands for all.
type right struct{ verb, group, resource string }

// neededFor returns the right to make a request.
func neededFor(e cluster.AuditEvent) right {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return right{e.Verb, e.APIGroup, resource}
}

// resourceName is as RBAC writes it: pods, deployments.apps/status.
func (r right) resourceName() string {
	resource, subresource, found := strings.Cut(r.resource, "/")
	if r.group != "" {
		resource += "." + r.group
	}
	if found {
		resource += "/" + subresource
	}
	return resource
}

// covers tells whether the right includes another one.
func (r right) covers(needed right) bool {
	is := func(granted, needed string) bool { return granted == "*" || granted == needed }
	return is(r.verb, needed.verb) && is(r.group, needed.group) && is(r.resource, needed.resource)
}

// account is what a loop may do and what it has done.
type account struct {
	granted   map[right]bool // whether it was used
	forbidden []string       // what it has asked for without the right to
}

// playRights plays scenarios with kcm and shows from the audit log which of the
// rights that its role grants each loop has used. It is an error if a loop has
// asked for something that it may not do, or if a scenario has failed.
func playRights(ctx context.Context, pattern string) error {
	chosen, err := choose(pattern)
	if err != nil {
		return err
	}
	c := &column{name: "kcm"}
	var accounts map[string]*account
	c.lookBack = func(ctx context.Context, lab *cluster.Cluster) (err error) {
		accounts, err = readRights(ctx, lab)
		return err
	}
	if err := c.play(ctx, chosen, false); err != nil {
		return err
	}
	if err := verdict(chosen, []*column{c}); err != nil {
		return err
	}
	return tellRights(accounts, len(chosen))
}

// readRights reads what the loops have done from the audit log, and what they may
// do from their roles.
func readRights(ctx context.Context, lab *cluster.Cluster) (map[string]*account, error) {
	client, err := kubernetes.NewForConfig(lab.RESTConfig(cluster.Admin))
	if err != nil {
		return nil, err
	}
	events, err := lab.AuditEvents(func(e cluster.AuditEvent) bool {
		return strings.HasPrefix(e.User, accountPrefix) && strings.HasPrefix(e.UserAgent, "kcm") && e.Resource != ""
	})
	if err != nil {
		return nil, err
	}
	accounts := map[string]*account{}
	for _, e := range events {
		name := strings.TrimPrefix(e.User, accountPrefix)
		a := accounts[name]
		if a == nil {
			if a, err = grantedTo(ctx, client, name); err != nil {
				return nil, err
			}
			accounts[name] = a
		}
		a.use(e)
	}
	return accounts, nil
}

// grantedTo returns the rights that the roles of a loop grant. The role of some is
// for the namespace kube-system only.
func grantedTo(ctx context.Context, client kubernetes.Interface, name string) (*account, error) {
	a := &account{granted: map[right]bool{}}
	everywhere, err := client.RbacV1().ClusterRoles().Get(ctx, rolePrefix+name, metav1.GetOptions{})
	if err == nil {
		a.grant(everywhere.Rules)
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read what %s may do: %w", name, err)
	}
	inKubeSystem, err := client.RbacV1().Roles(metav1.NamespaceSystem).Get(ctx, rolePrefix+name, metav1.GetOptions{})
	if err == nil {
		a.grant(inKubeSystem.Rules)
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read what %s may do in kube-system: %w", name, err)
	}
	return a, nil
}

func (a *account) grant(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					a.granted[right{verb, group, resource}] = false
				}
			}
		}
	}
}

// use marks the right to make a request as used.
func (a *account) use(e cluster.AuditEvent) {
	needed := neededFor(e)
	if e.Forbidden {
		a.forbidden = append(a.forbidden, needed.resourceName()+" "+needed.verb)
	}
	for r := range a.granted {
		if r.covers(needed) {
			a.granted[r] = true
		}
	}
}

// unused returns the rights that were not used, by resource.
func (a *account) unused() []string {
	verbs := map[string][]string{}
	for r, used := range a.granted {
		if !used {
			verbs[r.resourceName()] = append(verbs[r.resourceName()], r.verb)
		}
	}
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		slices.Sort(verbs[resource])
		all = append(all, resource+" "+strings.Join(verbs[resource], ","))
	}
	return all
}

// tellRights prints the table. It is an error if a loop was forbidden something.
func tellRights(accounts map[string]*account, played int) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nloop's account\trights granted\trights used\tnot used")
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		a := accounts[name]
		used := 0
		for _, yes := range a.granted {
			if yes {
				used++
			}
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%s\n", name, len(a.granted), used, cmp.Or(strings.Join(a.unused(), "\n\t\t\t"), "–"))
		slices.Sort(a.forbidden)
		for _, request := range slices.Compact(a.forbidden) {
			errs = append(errs, fmt.Errorf("%s has asked for %s, which its role does not allow", name, request))
		}
	}
	out.Flush()
	fmt.Printf("From the audit log of %d scenarios. A right that was not used may be one that they do not need.\n", played)
	return errors.Join(errs...)
}
