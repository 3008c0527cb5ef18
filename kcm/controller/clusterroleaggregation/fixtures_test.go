package clusterroleaggregation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")

// role is a plain one with a rule for each verb.
func role(name string, verbs ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Rules: rules(verbs...)}
}

func rules(verbs ...string) (all []rbacv1.PolicyRule) {
	for _, verb := range verbs {
		all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	return all
}

// verbs says which rules there are.
func verbs(rules []rbacv1.PolicyRule) string {
	var all []string
	for _, rule := range rules {
		all = append(all, rule.Verbs...)
	}
	return cmp.Or(strings.Join(all, " "), "nothing")
}

// labelled has a role have labels, as in "to=view kind=core".
func labelled(role *rbacv1.ClusterRole, labels string) *rbacv1.ClusterRole {
	role = role.DeepCopy()
	role.Labels = map[string]string{}
	for _, label := range strings.Fields(labels) {
		key, value, _ := strings.Cut(label, "=")
		role.Labels[key] = value
	}
	return role
}

// selecting has a role select others, as in "to=view", "to in (view, edit)".
func selecting(role *rbacv1.ClusterRole, selectors ...string) *rbacv1.ClusterRole {
	role = role.DeepCopy()
	role.AggregationRule = &rbacv1.AggregationRule{}
	for _, text := range selectors {
		selector, err := metav1.ParseToLabelSelector(text)
		if err != nil {
			panic(err)
		}
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors, *selector)
	}
	return role
}

// bundled are the roles that each cluster has: admin has the rules of edit, and edit those of view.
func bundled() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		selecting(role("admin"), "to-admin=true"),
		labelled(selecting(role("edit"), "to-edit=true"), "to-admin=true"),
		labelled(selecting(role("view"), "to-view=true"), "to-edit=true"),
		labelled(role("system:admin", "bind"), "to-admin=true"),
		labelled(role("system:edit", "create"), "to-edit=true"),
		labelled(role("system:view", "get"), "to-view=true"),
	}
}

// cluster is one in a bubble, whose API server applies only the rules of ClusterRoles.
type cluster struct {
	t       *testing.T
	client  *fake.Clientset
	version atomic.Int64
	mu      sync.Mutex
	// asked are the requests to apply rules, and as whom and how.
	asked, manners []string
	// refuse is what the API server says to a request for a role, and before it has somebody else
	// be faster.
	refuse func(name string) error
	before func(name string)
}

// told runs a controller in a cluster that has these roles while something happens there, and for six
// hours after that. It returns which rules it has asked to apply.
func told(t *testing.T, there []*rbacv1.ClusterRole, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string) error { return nil }, before: func(string) {}}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		c.client.PrependReactor("patch", "clusterroles", c.applies)
		c.has(there...)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim()))
		controller := New(factory.Rbac().V1().ClusterRoles(), c.client.RbacV1())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { controller.Run(ctx, 1); close(ended) }()
		happens(c)
		time.Sleep(6 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	return cmp.Or(strings.Join(c.asked, "; "), "no request")
}

// applies answers a request to apply rules.
func (c *cluster) applies(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	var config rbacv1.ClusterRole
	assert.NoError(c.t, json.Unmarshal(patch.Patch, &config))
	wanted := verbs(config.Rules)
	if config.Rules == nil {
		wanted = "no word about rules"
	}
	c.asked = append(c.asked, patch.Name+": "+wanted)
	force := patch.PatchOptions.Force != nil && *patch.PatchOptions.Force
	c.manners = append(c.manners, fmt.Sprintf("%s, as %s, by force: %v", patch.PatchType, patch.PatchOptions.FieldManager, force))
	c.before(patch.Name)
	if err := c.refuse(patch.Name); err != nil {
		return true, nil, err
	}
	found, err := c.client.Tracker().Get(clusterRoles, "", patch.Name)
	if err != nil {
		return true, nil, apierrors.NewConflict(clusterRoles.GroupResource(), patch.Name, errors.New("uid mismatch"))
	}
	role := found.(*rbacv1.ClusterRole).DeepCopy()
	if config.UID != role.UID || config.ResourceVersion != role.ResourceVersion {
		return true, nil, apierrors.NewConflict(clusterRoles.GroupResource(), patch.Name, errors.New("the object has been modified"))
	}
	if config.Rules != nil { // what is left out stays: somebody else may own it
		role.Rules = config.Rules
	}
	role.ResourceVersion = c.next()
	return true, role, c.client.Tracker().Update(clusterRoles, role, "")
}

// next returns a resource version.
func (c *cluster) next() string { return strconv.FormatInt(c.version.Add(1), 10) }

// has puts roles there, in place of those that have their names.
func (c *cluster) has(roles ...*rbacv1.ClusterRole) {
	for _, role := range roles {
		role = role.DeepCopy()
		role.ResourceVersion = c.next()
		api := c.client.RbacV1().ClusterRoles()
		_, err := api.Update(c.t.Context(), role, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(c.t.Context(), role, metav1.CreateOptions{})
		}
		assert.NoError(c.t, err)
	}
}

// edit has somebody change a role as it is now.
func (c *cluster) edit(name string, edit func(*rbacv1.ClusterRole)) {
	found, err := c.client.Tracker().Get(clusterRoles, "", name)
	assert.NoError(c.t, err)
	role := found.(*rbacv1.ClusterRole).DeepCopy()
	edit(role)
	role.ResourceVersion = c.next()
	assert.NoError(c.t, c.client.Tracker().Update(clusterRoles, role, ""))
}

// rests lets a minute pass, and forgets what was asked until then.
func (c *cluster) rests() {
	time.Sleep(time.Minute)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = nil
}

// may says which rules a role has.
func (c *cluster) may(name string) string {
	found, err := c.client.Tracker().Get(clusterRoles, "", name)
	assert.NoError(c.t, err)
	return verbs(found.(*rbacv1.ClusterRole).Rules)
}
