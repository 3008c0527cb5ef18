package controller

import (
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// ExpectationsTimeout is how long an owner waits for what it expects. It ends
// the wait for a notification that never comes; while all is well none takes
// that long.
const ExpectationsTimeout = 5 * time.Minute

// Expectations remember, for each owner, the creations and deletions that it
// asked for and that its cache does not show yet. An owner that counted its
// objects in such a cache would count wrong and create or delete too many. So
// a loop writes down what it expects before it asks for it, takes each
// notification off, and creates and deletes nothing until nothing is left.
//
// Creations are counted, for the API server chooses the names. Deletions are known
// by UID, because one deletion is notified twice: when the object gets its deletion
// timestamp, and when it is gone. What is expected belongs to one owner's UID;
// another owner that later has the same name starts with nothing expected, whatever
// notifications of the old one's objects come late.
type Expectations struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	byOwner map[cache.ObjectName]*expectation
}

type expectation struct {
	owner     types.UID
	creations int
	deletions sets.Set[types.UID]
	since     time.Time
}

// NewExpectations returns expectations for owners of one kind.
func NewExpectations(clock clock.PassiveClock) *Expectations {
	return &Expectations{clock: clock, byOwner: map[cache.ObjectName]*expectation{}}
}

// Expect sets what the owner expects from now on, in place of what it expected
// before. Call it before asking for any of it, or a notification may come too
// early to be counted.
func (e *Expectations) Expect(owner metav1.Object, creations int, deletions ...types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byOwner[cache.MetaObjectToName(owner)] = &expectation{
		owner:     owner.GetUID(),
		creations: creations,
		deletions: sets.New(deletions...),
		since:     e.clock.Now(),
	}
}

// Satisfied tells whether the owner may act: everything that it expected has
// been observed, or it has waited for [ExpectationsTimeout].
func (e *Expectations) Satisfied(owner metav1.Object) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	expected := e.of(owner)
	if expected == nil {
		return true
	}
	nothingLeft := expected.creations == 0 && expected.deletions.Len() == 0
	return nothingLeft || e.clock.Since(expected.since) > ExpectationsTimeout
}

// CreationObserved takes one creation off. Call it also for a creation that
// failed: there will be no notification of it.
func (e *Expectations) CreationObserved(owner metav1.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if expected := e.of(owner); expected != nil && expected.creations > 0 {
		expected.creations--
	}
}

// DeletionObserved takes the deletion of one object off, if it was expected
// and not observed before. Call it also for a deletion that failed.
func (e *Expectations) DeletionObserved(owner metav1.Object, object types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if expected := e.of(owner); expected != nil {
		expected.deletions.Delete(object)
	}
}

// Forget drops what the owner of that name expected. Call it when the owner
// is gone.
func (e *Expectations) Forget(owner cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byOwner, owner)
}

// Left returns how many creations and deletions an owner still waits for.
func (e *Expectations) Left(owner metav1.Object) (creations, deletions int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if expected := e.of(owner); expected != nil {
		creations, deletions = expected.creations, expected.deletions.Len()
	}
	return creations, deletions
}

// Pending is what an owner still waits for.
type Pending struct {
	Owner     cache.ObjectName
	Creations int
	// Deletions are the UIDs of the objects that are expected to go.
	Deletions []types.UID
	Since     time.Time
}

// Pending returns what is still expected, sorted by owner. Owners that wait
// for nothing are left out.
func (e *Expectations) Pending() []Pending {
	e.mu.Lock()
	defer e.mu.Unlock()
	pending := []Pending{}
	for owner, expected := range e.byOwner {
		if expected.creations > 0 || expected.deletions.Len() > 0 {
			pending = append(pending, Pending{owner, expected.creations, sets.List(expected.deletions), expected.since})
		}
	}
	slices.SortFunc(pending, func(a, b Pending) int { return strings.Compare(a.Owner.String(), b.Owner.String()) })
	return pending
}

// of returns what this owner expects, and not what an earlier one of the same
// name did: nil if nothing is noted. The caller holds the lock.
func (e *Expectations) of(owner metav1.Object) *expectation {
	expected := e.byOwner[cache.MetaObjectToName(owner)]
	if expected == nil || expected.owner != owner.GetUID() {
		return nil
	}
	return expected
}
