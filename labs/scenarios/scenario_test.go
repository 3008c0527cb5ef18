package scenarios

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// scenario is one script while it runs.
type scenario struct {
	namespace string
	client    dynamic.Interface
	recording *history.Recording
	mark      uint64         // the version of the last change before the last mark
	vars      map[string]any // what let has stored
	views     map[*unstructured.Unstructured]map[string]any
	managers  map[string]*manager
	touched   int // how often settle has touched an object
}

// patience is how long await and its like wait.
func patience() time.Duration {
	if cluster.OnKind() {
		return 90 * time.Second // real containers start and stop more slowly
	}
	return 30 * time.Second
}

type scenarioKey struct{}

// of returns the scenario of a script.
func of(ts *testscript.TestScript) *scenario { return ts.Value(scenarioKey{}).(*scenario) }

// recorded are the resources of which every change is kept.
var recorded = []schema.GroupVersionResource{
	kindOf["deployment"], kindOf["replicaset"], kindOf["replicationcontroller"], kindOf["pod"],
	kindOf["serviceaccount"], kindOf["secret"], kindOf["configmap"], kindOf["event"], kindOf["lease"],
}

// kindOf are the kinds that a scenario may name.
var kindOf = map[string]schema.GroupVersionResource{
	"deployment":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicaset":            {Group: "apps", Version: "v1", Resource: "replicasets"},
	"replicationcontroller": {Version: "v1", Resource: "replicationcontrollers"},
	"pod":                   {Version: "v1", Resource: "pods"},
	"serviceaccount":        {Version: "v1", Resource: "serviceaccounts"},
	"secret":                {Version: "v1", Resource: "secrets"},
	"configmap":             {Version: "v1", Resource: "configmaps"},
	"event":                 {Version: "v1", Resource: "events"},
	"resourcequota":         {Version: "v1", Resource: "resourcequotas"},
	"namespace":             {Version: "v1", Resource: "namespaces"},
	"lease":                 {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
}

// setUp gives a script its namespace, in which pods can run, and begins to
// record what happens there.
func setUp(env *testscript.Env) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &scenario{vars: map[string]any{}, views: map[*unstructured.Unstructured]map[string]any{}, managers: map[string]*manager{}}
	env.Values[scenarioKey{}] = s
	env.Defer(func() { s.tearDown(cancel) })
	config := lab.RESTConfig(cluster.Admin)
	config.UserAgent = "scenario"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	s.client = client
	if s.namespace, err = createNamespace(ctx, kubernetes.NewForConfigOrDie(config), filepath.Base(env.WorkDir)); err != nil {
		return err
	}
	if s.recording, err = history.Record(ctx, client, s.namespace, recorded...); err != nil {
		return err
	}
	env.Setenv("NS", s.namespace)
	return s.waitUntil("the namespace has a default ServiceAccount and the root CA", `
		serviceaccounts.exists(s, s.metadata.name == "default") && configmaps.exists(c, c.metadata.name == "kube-root-ca.crt")`)
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func createNamespace(ctx context.Context, client kubernetes.Interface, script string) (string, error) {
	name := strings.TrimPrefix(script, "script-")
	prefix := strings.Trim(notInNames.ReplaceAllString(name[:min(len(name), 40)], "-"), "-") + "-"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	created, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	return created.Name, nil
}

// tearDown stops what the script has started and deletes what runs in its
// namespace, owners first. The namespace stays: no loop that would remove it
// runs.
func (s *scenario) tearDown(stopRecording func()) {
	for _, m := range s.managers {
		m.Kill()
	}
	stopRecording()
	if s.recording != nil {
		s.recording.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	for _, kind := range []string{"deployment", "replicaset", "replicationcontroller", "pod"} {
		client := s.client.Resource(kindOf[kind]).Namespace(s.namespace)
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
		// What is left behind harms nobody: the cluster ends with the tests.
		_ = client.DeleteCollection(ctx, now, metav1.ListOptions{})
	}
}

// waitUntil waits until expression is true of what is in the namespace.
func (s *scenario) waitUntil(what, expression string) error {
	program, err := compile(expression)
	if err != nil {
		return err
	}
	return s.poll(what, func(now history.State) (bool, error) {
		return program.isTrue(s.activation(now, nil))
	})
}

// poll calls done with the newest state until it returns true. An error of done
// is what was seen last. The first state is not older than the call, so that
// what was true before the script's last change does not count.
func (s *scenario) poll(what string, done func(history.State) (bool, error)) error {
	deadline := time.Now().Add(patience())
	if _, err := s.recording.CatchUp(context.Background()); err != nil {
		return err
	}
	for {
		changes, err := s.recording.Changes()
		if err != nil {
			return err
		}
		now := history.Now(changes)
		ok, seen := done(now)
		var fatal *fatalError
		if errors.As(seen, &fatal) {
			return seen
		}
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v until %s%s\nthis is there:\n%s", patience(), what, because(seen), describe(now))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// now returns the newest state.
func (s *scenario) now() (history.State, error) {
	if _, err := s.recording.CatchUp(context.Background()); err != nil {
		return nil, err
	}
	changes, err := s.recording.Changes()
	return history.Now(changes), err
}

// fatalError is one that no waiting mends.
type fatalError struct{ error }

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
