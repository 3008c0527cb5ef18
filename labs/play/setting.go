package play

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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
	// Namespace is where scripts look that have none of their own. If it is empty that is default.
	Namespace string
	// Manifests are folders with files that scripts may create beside their own.
	Manifests []string
	// Dir is the folder in which kubectl runs, and Logs the one in which logs and
	// drawings are kept. If they are empty that is a folder of the script's own,
	// which goes with it.
	Dir, Logs string
	// Module is the module below which Dir also lies, with the programs that
	// scripts start: the stage's or a reader's. Without it they are in Dir.
	Module string
	// Keep leaves everything up at the end of a script until ctx ends.
	Keep bool
	// Spectator is told of the managers that are started. It may be nil.
	Spectator Spectator
	// Narrator is told what happens. It may be nil.
	Narrator Narrator
	// Patience is how long await and its like wait. 0 means two minutes, and four on kind.
	Patience time.Duration
}

// conditions are what may stand in brackets before a line, with a ! or without,
// and after only.
var conditions = []string{"kcm", "reference", "kind", "embedded", "accounts"}

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
	case "accounts": // which the manager of chapter 05 makes
		return s.Manager == nil || s.Manager.has("serviceaccount-token-controller"), nil
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
	if own.Patience == 0 {
		own.Patience = 2 * time.Minute
		if cluster.OnKind() {
			own.Patience = 4 * time.Minute // real containers start and stop more slowly
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Play{
		Setting: &own, ctx: ctx, namespace: cmp.Or(own.Namespace, metav1.NamespaceDefault), work: env.WorkDir, began: time.Now(), stepBegan: time.Now(), t: env.T().(result),
		memory: &memory{recordings: map[string]*history.Recording{}, views: map[*unstructured.Unstructured]map[string]any{}},
		vars:   map[string]any{}, managers: map[string]*manager{}, tokens: map[string]string{},
		recorded: mentioned(script.text(env.Getenv)),
	}
	env.Values[playKey{}] = p
	env.Defer(func() { p.tearDown(cancel) })
	if s.Cluster == nil {
		return nil
	}
	if p.config, err = p.answeredInTime(); err != nil {
		return err
	}
	if p.client, err = dynamic.NewForConfig(p.config); err != nil {
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
	if p.namespace, err = createNamespace(ctx, kubernetes.NewForConfigOrDie(p.config), filepath.Base(env.WorkDir)); err != nil {
		return err
	}
	p.own = p.namespace
	env.Setenv("NS", p.own)
	if len(s.Manager.Loops) == 0 && !s.Manager.Reference {
		return nil // a manager of the first chapters gives a namespace nothing
	}
	return p.awaitNamespace()
}

// answeredInTime is how the API server is talked to. An answer has to begin in
// time, as it does not while that is frozen; a watch goes on for as long as it
// takes.
func (s *Setting) answeredInTime() (*rest.Config, error) {
	config := s.Cluster.RESTConfig(cluster.Admin)
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "play"
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, ResponseHeaderTimeout: s.Patience}
	return config, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func createNamespace(ctx context.Context, client kubernetes.Interface, script string) (string, error) {
	name := strings.ToLower(strings.TrimPrefix(script, "script-"))
	prefix := cmp.Or(strings.Trim(notInNames.ReplaceAllString(name[:min(len(name), 40)], "-"), "-"), "script") + "-"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	created, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	return created.Name, nil
}

// tearDown ends the last step, and stops what the script has started. Where other
// scripts go on in the cluster it deletes what runs in the script's namespace,
// owners first. The namespace stays.
func (p *Play) tearDown(stop func()) {
	var err error
	if !p.t.Failed() && !p.t.Skipped() {
		err = p.endStep()
	}
	defer func() {
		if err != nil {
			p.t.Fatal(err)
		}
	}()
	if p.Keep && p.ctx.Err() == nil {
		p.stayUp(err)
	}
	interrupted := p.ctx.Err() != nil // then the cluster ends, too
	p.endManagers()
	p.closeProxies()
	stop()
	p.join() // after a failure, what was done meanwhile has failed, too
	for _, r := range p.memory.recordings {
		r.Wait()
	}
	if !p.LoopsRun || p.client == nil || interrupted {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	for _, kind := range []string{"cronjob", "job", "daemonset", "deployment", "replicaset", "replicationcontroller", "pod"} {
		client := p.client.Resource(kindOf[kind]).Namespace(p.own)
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
		// What is left behind harms nobody: the cluster ends with the last script.
		_ = client.DeleteCollection(ctx, now, metav1.ListOptions{})
	}
}
