package play

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// Setting is what scripts are played in. Several may be played in one at the same time, if each has a namespace of its
// own.
type Setting struct {
	// Cluster is nil where scripts only run the manager by itself.
	Cluster *cluster.Cluster
	// Manager is the controller manager that scripts start.
	Manager *Manager
	// LoopsRun tells that a manager runs all loops already (see [Setting.RunLoops]). Then each script gets a namespace of
	// its own, in which pods can run, and what it starts has its Lease there and runs one harmless loop.
	LoopsRun bool
	// Namespace is where scripts look that have none of their own. If it is empty that is default.
	Namespace string
	// Manifests are folders with files that scripts may create beside their own.
	Manifests []string
	// Dir is the folder in which kubectl runs, and Logs the one in which logs and drawings are kept. If they are empty
	// that is a folder of the script's own, which goes with it.
	Dir, Logs string
	// Module is the module below which Dir also lies, with the programs that scripts start: the stage's or a reader's.
	// Without it they are in Dir.
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

// conditions are what may stand in brackets before a line, with a ! or without, and after only.
var conditions = map[string]func(*Setting) bool{
	"kcm":       func(s *Setting) bool { return s.Manager == nil || !s.Manager.Reference },
	"reference": func(s *Setting) bool { return s.Manager != nil && s.Manager.Reference },
	"kind":      func(*Setting) bool { return cluster.OnKind() },
	"embedded":  func(*Setting) bool { return !cluster.OnKind() },
	// Each loop has one when the manager of chapter 05 makes their tokens.
	"accounts": func(s *Setting) bool { return s.Manager == nil || s.Manager.has("serviceaccount-token-controller") },
}

func (s *Setting) holds(condition string) (bool, error) {
	if holds := conditions[condition]; holds != nil {
		return holds(s), nil
	}
	known := slices.Sorted(maps.Keys(conditions))
	return false, fmt.Errorf("unknown condition %s; there are %s", condition, strings.Join(known, ", "))
}

// play returns a play of the script that has not begun yet.
func (s *Setting) play(ctx context.Context, on *house) *Play {
	own := *s
	if own.Narrator == nil {
		own.Narrator = NewTeller(io.Discard, false)
	}
	if own.Patience == 0 {
		own.Patience = 2 * time.Minute
		if cluster.OnKind() {
			own.Patience = 4 * time.Minute // real containers start and stop more slowly
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Play{
		Setting: &own, ctx: ctx, t: on, namespace: cmp.Or(own.Namespace, metav1.NamespaceDefault), began: time.Now(),
		memory: &memory{recordings: map[string]*history.Recording{}, views: map[*unstructured.Unstructured]map[string]any{}},
		vars:   map[string]any{}, managers: map[string]*manager{}, tokens: map[string]string{},
	}
	p.ends = append(p.ends, func() {
		cancel()
		p.join() // after a failure, what was done meanwhile has failed, too
		for _, r := range p.memory.recordings {
			r.Wait()
		}
	})
	return p
}

func (p *Play) setUp(script *Script, env *testscript.Env) (err error) {
	p.work, p.Dir, p.Logs = env.WorkDir, cmp.Or(p.Dir, env.WorkDir), cmp.Or(p.Logs, env.WorkDir)
	text := os.Expand(string(script.archive.Comment), env.Getenv)
	p.recorded = mentionedIn(text + usedBy(text))
	env.Defer(p.tearDown)
	if p.Cluster == nil {
		return nil
	}
	if p.config, err = p.answeredInTime(); err != nil {
		return err
	}
	p.client = dynamic.NewForConfigOrDie(p.config)
	ca, err := os.ReadFile(p.Cluster.RootCA)
	if err != nil {
		return err
	}
	p.vars["rootCA"] = string(ca)
	env.Setenv("NEXT_KEY", p.Cluster.NextServiceAccountKey)
	if !p.LoopsRun {
		return nil
	}
	name := strings.ToLower(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"))
	name = strings.Trim(notInNames.ReplaceAllString(name[:min(len(name), 40)], "-"), "-")
	p.own = cmp.Or(name, "script") + "-" + rand.String(5)
	env.Setenv("NS", p.own)
	return p.enter(p.own)
}

// answeredInTime is how the API server is talked to. An answer has to begin in time, as it does not while that is
// frozen; a watch goes on for as long as it takes.
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

// tearDown ends the last step, and stops what the script has started. Where other scripts go on in the cluster it
// deletes what runs in the script's namespace, owners first. The namespace stays.
func (p *Play) tearDown() {
	var err error
	if !p.t.failed && !p.t.skipped {
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
	for _, end := range slices.Backward(p.ends) {
		end()
	}
	if !p.LoopsRun || p.client == nil || interrupted {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, kind := range strings.Fields("cronjob job daemonset deployment replicaset replicationcontroller pod") {
		client := p.client.Resource(kindOf[kind]).Namespace(p.own)
		// What is left behind harms nobody: the cluster ends with the last script.
		_ = client.DeleteCollection(ctx, now, metav1.ListOptions{})
	}
}
