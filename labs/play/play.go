package play

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// Setting is what scripts are played in. Several may be played in one at the
// same time, if each has a namespace of its own.
type Setting struct {
	// Cluster is nil where scripts only run the manager by itself.
	Cluster *cluster.Cluster
	// Manager is the controller manager that scripts start.
	Manager *Manager
	// LoopsRun tells that a manager runs all loops already (see [Setting.RunLoops]).
	// Then each script gets a namespace of its own, in which pods can run, and
	// what it starts has its Lease there and runs one harmless loop.
	LoopsRun bool
	// Manifests are folders with files that scripts may create beside their own.
	Manifests []string
	// Dir is the folder in which kubectl runs, and Logs the one in which logs and
	// drawings are kept. If they are empty that is a folder of the script's own,
	// which goes with it.
	Dir, Logs string
	// Keep leaves everything up at the end of a script until ctx ends.
	Keep bool
	// Narrator is told what happens. It may be nil.
	Narrator Narrator
}

// Play is one script while it is played.
type Play struct {
	*Setting
	ctx        context.Context
	client     dynamic.Interface
	namespace  string // "" means all
	recordings map[string]*history.Recording
	mu         sync.Mutex     // guards recordings and views, which verbs that work meanwhile use, too
	mark       uint64         // the version of the last change before the last mark
	vars       map[string]any // what let has stored
	views      map[*unstructured.Unstructured]map[string]any
	managers   map[string]*manager
	tokens     map[string]string
	touched    int // how often settle has touched an object
	meanwhiles []chan error
	steps      int
	stepBegan  time.Time
	servers    []*httptest.Server
	doors      map[string]*door
	recorded   []schema.GroupVersionResource // of which every change is kept
	began      time.Time
	marked     time.Time
	script     *testscript.TestScript // for stdout and stderr in expressions, while a line is carried out
	t          testscript.T
}

var errInterrupted = errors.New("interrupted")

// patience is how long await and its like wait.
func patience() time.Duration {
	if cluster.OnKind() {
		return 2 * time.Minute // real containers start and stop more slowly
	}
	return time.Minute
}

type playKey struct{}

// of returns the play of a script.
func of(ts *testscript.TestScript) *Play { return ts.Value(playKey{}).(*Play) }

// conditions are what may stand in brackets before a line, with a ! or without,
// and after only.
var conditions = []string{"kcm", "reference", "kind", "embedded", "process"}

// holds tells whether a condition holds in the setting.
func (s *Setting) holds(condition string) (bool, error) {
	switch condition {
	case "kcm":
		return s.Manager == nil || !s.Manager.Reference, nil
	case "reference":
		return s.Manager != nil && s.Manager.Reference, nil
	case "kind":
		return cluster.OnKind(), nil
	case "embedded":
		return !cluster.OnKind(), nil
	case "process": // and no static pod
		return s.Manager == nil || s.Manager.pod == nil, nil
	}
	return false, fmt.Errorf("unknown condition %s; there are %s", condition, strings.Join(conditions, ", "))
}

// Params are what testscript needs to play a script in the setting. Variables
// are NAME=VALUE for its lines.
func (s *Setting) Params(ctx context.Context, script *Script, variables ...string) testscript.Params {
	return testscript.Params{
		Files: []string{script.Path},
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, variables...)
			return s.setUp(ctx, script, env)
		},
		Cmds:               commands(),
		Condition:          s.holds,
		RequireUniqueNames: true,
	}
}

// setUp begins a play.
func (s *Setting) setUp(ctx context.Context, script *Script, env *testscript.Env) (err error) {
	own := *s
	if own.Dir == "" {
		own.Dir = env.WorkDir
	}
	if own.Logs == "" {
		own.Logs = env.WorkDir
	}
	if own.Narrator == nil {
		own.Narrator = silent{}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Play{
		Setting: &own, ctx: ctx, namespace: metav1.NamespaceDefault, recordings: map[string]*history.Recording{}, vars: map[string]any{},
		views: map[*unstructured.Unstructured]map[string]any{}, managers: map[string]*manager{}, tokens: map[string]string{}, doors: map[string]*door{},
		recorded: mentioned(script.text(env.Getenv)), began: time.Now(), stepBegan: time.Now(), t: env.T(),
	}
	env.Values[playKey{}] = p
	env.Defer(func() { p.tearDown(cancel) })
	if s.Cluster == nil {
		return nil
	}
	config := s.Cluster.RESTConfig(cluster.Admin)
	config.UserAgent = "play"
	if p.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	ca, err := os.ReadFile(s.Cluster.RootCAFile())
	if err != nil {
		return err
	}
	p.vars["rootCA"] = string(ca)
	env.Setenv("NEXT_KEY", s.Cluster.NextServiceAccountKeyFile())
	if !s.LoopsRun {
		return nil
	}
	if p.namespace, err = createNamespace(ctx, kubernetes.NewForConfigOrDie(config), filepath.Base(env.WorkDir)); err != nil {
		return err
	}
	env.Setenv("NS", p.namespace)
	return p.awaitNamespace()
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

// enter creates a namespace, if it is not there, and looks there.
func (p *Play) enter(c *call) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.args[0]},
	}}
	_, err := p.client.Resource(kindOf["namespace"]).Create(p.ctx, object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", c.args[0], err)
	}
	p.namespace = c.args[0]
	return p.awaitNamespace()
}

// awaitNamespace waits until what pods need is there. The loop that publishes the
// root CA may not run here.
func (p *Play) awaitNamespace() error {
	wanted := `serviceaccounts.exists(s, s.metadata.name == "default")`
	if p.LoopsRun {
		wanted += ` && configmaps.exists(c, c.metadata.name == "kube-root-ca.crt")`
	}
	q, err := p.parseQuestion([]string{wanted})
	if err != nil {
		return err
	}
	return p.poll("namespace "+p.namespace+" is ready for pods", func(now history.State) (bool, error) { return q.isTrue(p, now) })
}

func (p *Play) look(c *call) error {
	p.namespace = c.args[0]
	if p.namespace == "*" {
		p.namespace = metav1.NamespaceAll
	}
	_, err := p.recording()
	return err
}

// recording returns what is recorded of where the script looks. It begins when
// it is first asked for, and goes on until the play ends.
func (p *Play) recording() (*history.Recording, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.recordings[p.namespace]; r != nil {
		return r, nil
	}
	clients := map[string]dynamic.ResourceInterface{}
	for _, resource := range p.recorded {
		clients[resource.Resource] = p.api(resource)
	}
	r, err := history.Record(p.ctx, clients)
	if err == nil {
		p.recordings[p.namespace] = r
	}
	return r, err
}

// changes returns all that had happened when it was called.
func (p *Play) changes() ([]history.Change, error) {
	if p.client == nil {
		return nil, nil
	}
	r, err := p.recording()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience())
	defer cancel()
	if _, err := r.CatchUp(ctx); err != nil {
		return nil, err
	}
	return r.Changes()
}

// now returns the newest state.
func (p *Play) now() (history.State, error) {
	changes, err := p.changes()
	return history.Now(changes), err
}

// tearDown stops what the script has started. Where other scripts go on in the
// cluster it deletes what runs in the namespace, owners first. The namespace
// stays: no loop that would remove it runs.
func (p *Play) tearDown(stop func()) {
	if p.Keep && p.ctx.Err() == nil {
		p.stayUp()
	}
	p.endManagers()
	p.closeProxies()
	for _, d := range p.doors {
		d.Close()
	}
	stop()
	for _, r := range p.recordings {
		r.Wait()
	}
	if !p.LoopsRun || p.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	for _, kind := range []string{"deployment", "replicaset", "replicationcontroller", "pod"} {
		client := p.client.Resource(kindOf[kind]).Namespace(p.namespace)
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
		// What is left behind harms nobody: the cluster ends with the last script.
		_ = client.DeleteCollection(ctx, now, metav1.ListOptions{})
	}
}

// poll calls done with the newest state until it returns true. An error of done
// is what was seen last. The first state is not older than the call, so that
// what was true before the script's last change does not count.
func (p *Play) poll(what string, done func(history.State) (bool, error)) error {
	var now history.State
	caughtUp := false
	err := p.wait(what, func() (bool, error) {
		changes, err := p.pollChanges(caughtUp)
		if err != nil {
			return false, err
		}
		caughtUp = true
		now = history.Now(changes)
		return done(now)
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		err = fmt.Errorf("%w\nthis is there:\n%s", err, describe(now))
	}
	return err
}

// wait calls done until it returns true. An error of done is what was seen last.
func (p *Play) wait(what string, done func() (bool, error)) error {
	begin := time.Now()
	err := await.Until(p.ctx, 20*time.Millisecond, patience(), what, func(context.Context) error {
		ok, err := done()
		if ok {
			return nil
		}
		if err == nil {
			err = errors.New("it is not so")
		}
		if waited := time.Since(begin); waited > time.Second {
			p.Narrator.Waiting(fmt.Sprintf("waiting %.0f s until %s: %v", waited.Seconds(), what, err))
		}
		return err
	})
	if p.ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (p *Play) pollChanges(caughtUp bool) ([]history.Change, error) {
	if !caughtUp {
		return p.changes()
	}
	r, err := p.recording()
	if err != nil {
		return nil, err
	}
	return r.Changes()
}
