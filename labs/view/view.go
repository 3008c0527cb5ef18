// Package view shows what the loops of a controller manager do while they do it: a page with lanes for Deployments,
// ReplicaSets, pods, nodes and the loops themselves.
//
// It tells of two sources. The recording of labs/history says what the API server has, of kcm and of the original
// alike. The trace of kcm (kcm/trace) says what each sync has observed, decided and done. Both become moments: a line
// of text, and the nodes of the scene that it changes. A page, and a file that was exported, play moments and know
// nothing else, so a step back is exact.
//
// What is guaranteed: the page is served on localhost only, under a token, and nothing is written to the cluster but
// through the deeds that who serves it has allowed. A page that does not keep up delays nobody.
package view

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/history"
)

// Deed is something that a button does.
type Deed struct {
	Name string `json:"name"`
	// Does says what it does.
	Does string `json:"does"`
	// Do does it. An error is shown.
	Do func(context.Context) error `json:"-"`
}

// View makes moments of what it is told and shows them. Its methods may be called at any time.
type View struct {
	// Title is what is shown.
	Title string
	// Missing says what cannot be shown and why, or nothing.
	Missing string
	// Deeds are what the buttons do.
	Deeds []Deed
	// Book leads from the names of loops and from what their steps are called to where the book declares them, from the
	// root of the book's pages.
	Book map[string]map[string]string
	// Pages is the folder with the book's pages, or "" if there is none.
	Pages string

	// Asked tells whether a manager has asked to delete a pod. If it did not, that was a user, and no loop is blamed. nil
	// means that nobody knows.
	Asked func(namespace, pod string) bool

	token string

	mu      sync.Mutex
	scene   Scene // of the last moment
	moments []Moment
	news    chan struct{} // is closed at the next moment
	// leader is the manager that has begun to lead last, or "" if that is gone.
	leader string
	// uncounted says that the invariants do not count any more.
	uncounted bool
}

// New returns a view of which nobody has seen anything.
func New(title string) *View {
	return &View{Title: title, token: rand.Text(), scene: Scene{}, news: make(chan struct{})}
}

// Manager tells how a manager is: waits, leads, frozen, woken or gone.
func (v *View) Manager(name, state string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.manager(time.Now(), name, state)
}

// Did tells of something that was done from outside.
func (v *View) Did(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tell(time.Now(), "deed", what, nil)
}

// After returns the moments after the first n, and what is closed when there are more.
func (v *View) After(n int) (moments []Moment, news <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.moments[min(n, len(v.moments)):], v.news
}

// between returns the moments from one number to before another as if nothing had been before: the first one has the
// whole scene.
func (v *View) between(from, to int) []Moment {
	all, _ := v.After(0)
	to = min(to, len(all))
	if from < 0 || from >= to {
		return nil
	}
	scene := Scene{}
	for _, m := range all[:from+1] {
		scene.Apply(m)
	}
	part := slices.Clone(all[from:to])
	part[0].Set, part[0].Gone = scene, nil
	for i := range part {
		part[i].N = i
	}
	return part
}

// settled is how old a change is when the invariants are held against it: by then those of other resources that came
// before it have come, too.
const settled = 300 * time.Millisecond

// Record tells of what is recorded, and holds the invariants against it in the order of its versions, until ctx ends.
func (v *View) Record(ctx context.Context, r *history.Recording, judge *faults.Judge) {
	var judging sync.WaitGroup
	defer judging.Wait()
	looked := 0
	judging.Go(func() {
		wait.UntilWithContext(ctx, func(context.Context) {
			changes, _ := r.Changes() // if some were missed, the view shows the others
			for ; looked < len(changes) && time.Since(changes[looked].Seen) > settled; looked++ {
				v.look(judge, changes[looked])
			}
		}, settled/3)
	})
	for change := range r.Follow(ctx) {
		v.change(change)
		v.holds(change.Resource)
	}
}

// look holds the invariants against a change.
func (v *View) look(judge *faults.Judge, change history.Change) {
	o := change.Object
	if change.Resource == "pods" && (v.Asked == nil || !v.Asked(o.GetNamespace(), o.GetName())) {
		judge.Deletes(o.GetUID())
	}
	violations, err := judge.Look(change)
	if err != nil {
		v.Did("The invariants could not be looked at: " + err.Error())
	}
	for _, violation := range violations {
		v.broken(violation.Invariant, violation.Says)
	}
}
