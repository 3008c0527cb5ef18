package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/app/options"
	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// panicking is a connection on which each kind of write panics twice: before it is
// sent, and, when it is tried again, after its answer has come.
type panicking struct {
	http.RoundTripper
	mu    *sync.Mutex
	times map[string]int // how often each kind of write was tried
}

func (p panicking) RoundTrip(request *http.Request) (*http.Response, error) {
	kind := kindOfWrite(request)
	if kind == "" {
		return p.RoundTripper.RoundTrip(request)
	}
	p.mu.Lock()
	p.times[kind]++
	times := p.times[kind]
	p.mu.Unlock()
	if times == 1 {
		panic("before " + kind)
	}
	response, err := p.RoundTripper.RoundTrip(request)
	if times == 2 {
		panic("after " + kind)
	}
	return response, err
}

var ofAPI = regexp.MustCompile(`^/apis?/(?:[^/]+/)?v[^/]+/(?:namespaces/([^/]+)/)?([^/]+)(?:/[^/]+(/[^/]+)?)?$`)

// kindOfWrite tells which loop does what to which resource in which namespace, or
// nothing for what is no write of a loop.
func kindOfWrite(request *http.Request) string {
	parts := ofAPI.FindStringSubmatch(request.URL.Path)
	account := request.UserAgent()[strings.LastIndexAny(request.UserAgent(), "/:")+1:]
	if request.Method == http.MethodGet || parts == nil || parts[2] == "events" || parts[2] == "serviceaccounts" && parts[3] == "/token" ||
		!slices.ContainsFunc(descriptorsOf(config.ManagerName), func(d *ControllerDescriptor) bool { return d.account == account }) {
		return ""
	}
	return fmt.Sprintf("%s: %s %s%s in %s", account, request.Method, parts[2], parts[3], parts[1])
}

// startPanicking runs all loops in this process, and returns what has panicked.
func startPanicking(t *testing.T) *panicking {
	t.Helper()
	known := knownControllers(config.ManagerName)
	opts, err := options.NewKubeControllerManagerOptions()
	require.NoError(t, err)
	flags := opts.Flags(known)
	kubeconfig := clustertest.Cluster(t).Kubeconfigs[cluster.KCM]
	for flag, value := range map[string]string{
		"kubeconfig": kubeconfig, "leader-elect": "false", "secure-port": "0", "controllers": "*,token-cleaner-controller",
		"use-service-account-credentials": "true", "kube-api-qps": "200", "kube-api-burst": "400", "controller-start-interval": "0",
		"service-account-private-key-file": clustertest.Cluster(t).ServiceAccountKey,
	} {
		require.NoError(t, setFlag(flags, flag, value))
	}
	for _, flag := range canary.Flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		require.NoError(t, setFlag(flags, name, cmp.Or(value, "true")))
	}
	require.NoError(t, opts.Validate(known))
	c, err := opts.Config(known)
	require.NoError(t, err)
	all := &panicking{mu: &sync.Mutex{}, times: map[string]int{}}
	c.Kubeconfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return panicking{next, all.mu, all.times}
	})
	completed, err := c.Complete()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, completed) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	return all
}

func setFlag(groups cliflag.NamedFlagSets, name, value string) error {
	for _, group := range groups.FlagSets {
		if group.Lookup(name) != nil {
			return group.Set(name, value)
		}
	}
	return fmt.Errorf("there is no flag --%s", name)
}

const podTemplate = `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}`

// whole are objects that take several writes, and what is true of each in the end.
var whole = map[string]struct {
	manifests []string
	resource  schema.GroupVersionResource
	status    map[string]int64
}{
	"a ReplicaSet has its pods": {
		[]string{`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: 5, selector: {matchLabels: {app: web}}, ` + podTemplate + `}}`},
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"},
		map[string]int64{"replicas": 5, "readyReplicas": 5, "availableReplicas": 5},
	},
	"a Deployment is rolled out": {
		[]string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 5, selector: {matchLabels: {app: web}}, ` + podTemplate + `}}`},
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		map[string]int64{"replicas": 5, "updatedReplicas": 5, "availableReplicas": 5},
	},
	"a DaemonSet has a pod on each node": {
		[]string{`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, ` + podTemplate + `}}`},
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"},
		map[string]int64{"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberAvailable": 3, "updatedNumberScheduled": 3},
	},
	"a Job counts each pod once": {
		[]string{`{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {completions: 6, parallelism: 3,
			template: {metadata: {annotations: {lab.kcm-book.io/run-for: 100ms}}, spec: {restartPolicy: Never, containers: [{name: web, image: "web:1"}]}}}}`},
		schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
		map[string]int64{"succeeded": 6},
	},
}

func TestEachLoopIsRightInTheEndThoughItHasPanickedAtEachOfItsWrites(t *testing.T) {
	all := startPanicking(t)
	admin := clustertest.Cluster(t).RESTConfig(cluster.Admin)
	admin.WarningHandler = rest.NoWarnings{}
	client := dynamic.NewForConfigOrDie(admin)
	t.Run("loops", func(t *testing.T) {
		for i, c := range canary.All {
			t.Run(fmt.Sprint(c.Loop, ": ", c.Does), func(t *testing.T) {
				t.Parallel()
				require.NoError(t, c.Try(t.Context(), clustertest.Cluster(t), fmt.Sprintf("panics-%d", i), time.Minute))
			})
		}
		namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
		for what, w := range whole {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
				o.SetGenerateName("panics-")
				o, err := namespaces.Create(t.Context(), o, metav1.CreateOptions{})
				require.NoError(t, err)
				namespace := o.GetName()
				for _, manifest := range w.manifests {
					o := &unstructured.Unstructured{}
					require.NoError(t, yaml.Unmarshal([]byte(manifest), &o.Object))
					_, err := client.Resource(w.resource).Namespace(namespace).Create(t.Context(), o, metav1.CreateOptions{})
					require.NoError(t, err)
				}
				// A Job that has failed is tried again after seconds, and after twice as many each time.
				err = await.Until(t.Context(), 100*time.Millisecond, 3*time.Minute, what, func(ctx context.Context) error {
					return hasStatus(ctx, client.Resource(w.resource).Namespace(namespace), w.status)
				})
				require.NoError(t, err)
			})
		}
	})
	for _, c := range canary.All {
		assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(all.times)), func(kind string) bool {
			return strings.HasPrefix(kind, accountOf(c.Loop)+":")
		}), "the %s has written, and has panicked", c.Loop)
	}
}

// accountOf returns the account that a loop writes as.
func accountOf(loop string) string {
	for _, d := range descriptorsOf(config.ManagerName) {
		if d.name == loop {
			return d.account
		}
	}
	return ""
}

func hasStatus(ctx context.Context, objects dynamic.ResourceInterface, wanted map[string]int64) error {
	o, err := objects.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for field, n := range wanted {
		if got, _, _ := unstructured.NestedInt64(o.Object, "status", field); got != n {
			return fmt.Errorf("status.%s is %d, not %d", field, got, n)
		}
	}
	return nil
}
