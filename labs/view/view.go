package view

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcm-book/kcm-book/kcm/trace"
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

// View makes moments of what it is told and shows them. Its methods may be called
// at any time.
type View struct {
	// Title is what is shown.
	Title string
	// Missing says what cannot be shown and why, or nothing.
	Missing string
	// Deeds are what the buttons do.
	Deeds []Deed
	// Book leads from the names of loops and from what their steps are called to
	// where the book declares them, from the root of the book's pages.
	Book map[string]map[string]string
	// Pages is the folder with the book's pages, or "" if there is none.
	Pages string

	// Asked tells whether a manager has asked to delete a pod. If it did not, that was
	// a user, and no loop is blamed. nil means that nobody knows.
	Asked func(namespace, pod string) bool

	token string
	mu    sync.Mutex
	told  *teller
	news  chan struct{} // is closed at the next moment

	judging atomic.Bool // tells whether the invariants count
}

// New returns a view of which nobody has seen anything.
func New(title string) *View {
	return &View{Title: title, token: rand.Text(), told: newTeller(), news: make(chan struct{})}
}

// tell has something told, and wakes who waits for news.
func (v *View) tell(f func(*teller)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.told.moments)
	if f(v.told); len(v.told.moments) > before {
		close(v.news)
		v.news = make(chan struct{})
	}
}

// Step tells of what a loop of a manager has done.
func (v *View) Step(manager string, s trace.Step) {
	v.tell(func(t *teller) { t.step(manager, s) })
}

// Manager tells how a manager is: waits, leads, frozen,
// woken or gone.
func (v *View) Manager(name, state string) {
	v.tell(func(t *teller) { t.manager(time.Now(), name, state) })
}

// Did tells of something that was done from outside.
func (v *View) Did(what string) {
	v.tell(func(t *teller) { t.tell(time.Now(), "deed", what, nil) })
}

// After returns the moments after the first n, and what is closed when there are
// more.
func (v *View) After(n int) (moments []Moment, news <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.told.moments[min(n, len(v.told.moments)):], v.news
}

// between returns the moments from one number to before another as if nothing had been before:
// the first one has the whole scene.
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

// settled is how old a change is when the invariants are held against it: by then
// those of other resources that came before it have come, too.
const settled = 300 * time.Millisecond

// Record tells of what is recorded, and holds the invariants against it in the order of
// its versions, until ctx ends.
func (v *View) Record(ctx context.Context, r *history.Recording, judge *faults.Judge) {
	v.judging.Store(true)
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
	begun := map[string]bool{}
	for change := range r.Follow(ctx) {
		v.tell(func(t *teller) { t.change(change) })
		if !begun[change.Resource] {
			begun[change.Resource] = true
			v.hold(change.Resource)
		}
	}
}

// hold tells that the invariants about a resource hold so far. What is not recorded
// has none that could be said to hold.
func (v *View) hold(resource string) {
	for _, invariant := range faults.Invariants {
		if invariant.About == resource {
			v.tell(func(t *teller) { t.invariant(time.Now(), invariant.Name, invariant.Says, "") })
		}
	}
}

// StopJudging says that the invariants do not count any more, and why.
func (v *View) StopJudging(why string) {
	if v.judging.Swap(false) {
		v.tell(func(t *teller) { t.uncounted(time.Now(), why) })
	}
}

// look holds the invariants against a change.
func (v *View) look(judge *faults.Judge, change history.Change) {
	if !v.judging.Load() {
		return
	}
	o := change.Object
	if change.Resource == "pods" && (v.Asked == nil || !v.Asked(o.GetNamespace(), o.GetName())) {
		judge.Deletes(o.GetUID())
	}
	violations, err := judge.Look(change)
	if err != nil {
		v.Did("The invariants could not be looked at: " + err.Error())
	}
	for _, broken := range violations {
		i := slices.IndexFunc(faults.Invariants, func(i faults.Invariant) bool { return i.Name == broken.Invariant })
		v.tell(func(t *teller) { t.invariant(time.Now(), broken.Invariant, faults.Invariants[i].Says, broken.Says) })
	}
}
