package play

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/history"
)

// Play is one script while it is played. What is done meanwhile has a copy.
type Play struct {
	*Setting
	ctx        context.Context
	config     *rest.Config // the admin's
	client     dynamic.Interface
	namespace  string                        // where it looks; "" means all
	own        string                        // the namespace that was created for it
	work       string                        // the folder with the script's files
	recorded   []schema.GroupVersionResource // of which every change is kept
	memory     *memory
	began      time.Time
	mark       uint64 // the version of the last change before the last mark
	marked     time.Time
	vars       map[string]any // what let has stored
	tokens     map[string]string
	managers   map[string]*manager
	ends       []func() // what ends all that was started, in the order in which it was
	touched    int      // how often settle has touched an object
	meanwhiles []chan error
	steps      int
	stepBegan  time.Time // zero where there is none, or the rest of it is left out
	// stdout and stderr are what the verbs before have left there.
	stdout, stderr string
	t              *house
}

// memory is what is known of the past.
type memory struct {
	mu         sync.Mutex
	recordings map[string]*history.Recording // by namespace
	views      map[*unstructured.Unstructured]map[string]any
}

// aside returns a copy for what goes on beside the script: later lines do not change what it knows.
func (p *Play) aside() *Play {
	copied := *p
	copied.vars, copied.tokens = maps.Clone(p.vars), maps.Clone(p.tokens)
	copied.managers = maps.Clone(p.managers)
	return &copied
}

var errInterrupted = errors.New("interrupted")

// enter creates a namespace, if it is not there, looks there, and waits until what pods need is there. The loop that
// publishes the root CA may not run here, or a manager of an early chapter may not have it.
func (p *Play) enter(name string) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	_, err := p.client.Resource(kindOf["namespace"]).Create(p.ctx, object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	p.namespace = name
	if p.LoopsRun && len(p.Manager.Loops) == 0 && !p.Manager.Reference {
		return nil // a manager of the first chapters gives a namespace nothing
	}
	wanted := `serviceaccounts.exists(s, s.metadata.name == "default")`
	if p.LoopsRun && p.Manager.has("root-ca-certificate-publisher-controller") {
		wanted += ` && configmaps.exists(c, c.metadata.name == "kube-root-ca.crt")`
	}
	return p.until("namespace "+name+" is ready for pods", nil, wanted)
}

func (p *Play) look(c *call) error {
	p.namespace = c.args[0]
	if p.namespace == "*" {
		p.namespace = metav1.NamespaceAll
	}
	_, err := p.recording()
	return err
}

// recording returns what is recorded of where the script looks. It begins when it is first asked for, and goes on until
// the play ends.
func (p *Play) recording() (*history.Recording, error) {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	if r := p.memory.recordings[p.namespace]; r != nil {
		return r, nil
	}
	clients := map[string]dynamic.ResourceInterface{}
	for _, resource := range p.recorded {
		clients[resource.Resource] = p.api(resource)
	}
	r, err := history.Record(p.ctx, clients)
	if err == nil {
		p.memory.recordings[p.namespace] = r
	}
	return r, err
}

// changes returns all that had happened when it was called.
func (p *Play) changes() ([]history.Change, error) {
	if p.client == nil {
		return nil, nil
	}
	if _, err := p.catchUp(); err != nil {
		return nil, err
	}
	return p.recordedChanges()
}

// catchUp waits until all that had happened when it was called is recorded. It returns the version until which that is.
func (p *Play) catchUp() (version uint64, err error) {
	r, err := p.recording()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.Patience)
	defer cancel()
	return r.CatchUp(ctx)
}

func (p *Play) recordedChanges() ([]history.Change, error) {
	r, err := p.recording()
	if err != nil {
		return nil, err
	}
	return r.Changes()
}

// poll calls done with the newest state until it returns true. An error of done is what was seen last. The first state
// is not older than the call, so that what was true before the script's last change does not count.
func (p *Play) poll(what string, done func(history.State) (bool, error)) error {
	var now history.State
	look := p.changes
	err := p.wait(what, func() (bool, error) {
		changes, err := look()
		if err != nil {
			return false, err
		}
		look, now = p.recordedChanges, history.Now(changes)
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
	err := await.Until(p.ctx, 20*time.Millisecond, p.Patience, what, func(context.Context) error {
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
