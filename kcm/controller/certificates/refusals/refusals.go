// Package refusals remembers to which questions the API server has said no, for as
// long as that may still be true.
package refusals

import (
	"maps"
	"sync"
	"time"
)

// A refusal is asked about again after the first of these times, and after twice as
// long each time that it is repeated, up to the second. That is for authorizers that
// nobody can watch, as a webhook is. The times are those of kube-controller-manager,
// which asks as often about each request.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 1000 * time.Second
)

// Memory remembers to which questions the API server has said no. A refusal stands
// for all requests about which the same is asked, however many a user makes. It
// stands only for those that had come when the question was asked, only while nobody
// is given a right, and only until it is time to ask again: 200 ms later, and twice
// as long after each repetition, up to 1000 s. A question that has been due for so
// long is forgotten. Its methods may be called at the same time.
//
// A refusal that stands too long has a node wait, as one that is never given a right.
// An approval that was remembered would let somebody in who has lost the right. So
// there is no memory of those.
type Memory struct {
	mu sync.Mutex
	// news counts what may change an answer: requests that come, and rights that are
	// given.
	news int
	// given is the number of the last right that was given, and arrived that of each
	// request, by its name.
	given   int
	arrived map[string]int
	said    map[string]refusal
	swept   time.Time
}

// Moment is a place in the order of what may change an answer.
type Moment struct{ news int }

// refusal is a question to which the API server has said no.
type refusal struct {
	since  int           // how much news there was when it was asked last
	wait   time.Duration // for how long it is not asked again
	due    time.Time     // when it is
	asking time.Time     // until when the others wait for what one is told who asks again
}

// New returns a memory in which there is nothing.
func New() *Memory {
	return &Memory{arrived: map[string]int{}, said: map[string]refusal{}, swept: time.Now()}
}

// Came notes that there is a new request, under a name that may have been another's.
// No refusal stands for it yet.
func (m *Memory) Came(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news++
	m.arrived[request] = m.news
}

// Went notes that a request is gone.
func (m *Memory) Went(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.arrived, request)
}

// Given notes that somebody was given a right. No refusal stands any more.
func (m *Memory) Given() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news++
	m.given = m.news
}

// Left returns for how long a refusal of the question still stands for a request. If
// it is not positive, the API server has to be asked. When it is time to ask again, one
// is told so, and all others to wait for what that one hears.
func (m *Memory) Left(request, question string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	said, ok := m.said[question]
	if !ok || said.since < max(m.given, m.arrived[request]) {
		return 0
	}
	if now := time.Now(); !now.Before(said.due) && !now.Before(said.asking) {
		said.asking = now.Add(firstWait)
		m.said[question] = said
		return 0
	}
	return max(time.Until(said.due), time.Until(said.asking))
}

// Now returns the present moment. An answer counts for what has come by the time at
// which the question was asked, so call this before you ask.
func (m *Memory) Now() Moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Moment{m.news}
}

// Refused notes that the API server has said no to a question that was asked at that
// moment. If it was asked before it was time, about a new request, the next time is
// no later for that. After a right was given the times begin anew.
func (m *Memory) Refused(question string, asked Moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	said := m.said[question]
	if said.since < m.given {
		said = refusal{}
	}
	if now := time.Now(); !now.Before(said.due) {
		said.wait = min(max(2*said.wait, firstWait), longestWait)
		said.due = now.Add(said.wait)
	}
	said.since = max(said.since, asked.news)
	m.said[question] = said
}

// sweep drops what nobody has asked again for long after it was due: no request
// waits for that any more.
func (m *Memory) sweep() {
	if time.Since(m.swept) > longestWait {
		maps.DeleteFunc(m.said, func(_ string, said refusal) bool { return time.Since(said.due) > longestWait })
		m.swept = time.Now()
	}
}
