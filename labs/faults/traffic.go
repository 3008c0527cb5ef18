package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/proxy"
)

const (
	lateness = 1500 * time.Millisecond
	// gap is how long nothing of a resource is seen after a missed event.
	gap = 500 * time.Millisecond
	// refusal is how long a policy refuses what it has once refused.
	refusal = 3 * time.Second
)

// Write is one write of a manager to its namespace. Events and Leases do not
// count.
type Write struct {
	At time.Time
	// What is method and path, such as PUT replicasets/web-1/status.
	What string
	// Code is that of the answer, or 0 as long as there is none.
	Code int
}

// traffic is what passes between a run's managers and the API server.
type traffic struct {
	namespace string // the only one that the managers see, or "" for all
	// collections are the paths of all namespaced resources in all namespaces.
	collections map[string]bool
	// strike is what happens outside of the proxy when a fault's number is
	// reached.
	strike func(Fault)

	mu       sync.Mutex
	fault    Fault // the one that is to happen next
	counting bool
	writes   []Write
	since    int             // how many writes there were when the fault was armed
	events   map[string]int  // by resource, since the fault was armed
	watched  map[string]bool // resources of which a watch was begun
	struck   []strike
	policy   policy
	older    map[string]older     // by resource, what its next list is to show
	behind   map[string]bool      // resources whose next watch is late
	missing  map[string]time.Time // by resource, until when nothing of it is seen
	onWrite  func()               // is called once, at the next write
}

// strike is a fault that has happened.
type strike struct {
	at    time.Time
	fault Fault
	// write is the number of the write at which it has happened, from 1, or 0.
	write int
}

// policy refuses a write and all like it, until it ends.
type policy struct {
	fault Fault
	what  string
	until time.Time
}

// older is what a list is to show.
type older struct {
	version string
	fault   Fault // due to which
}

func newTraffic(namespace string, collections map[string]bool, fault Fault) *traffic {
	return &traffic{
		namespace: namespace, collections: collections, fault: fault,
		events: map[string]int{}, watched: map[string]bool{},
		older: map[string]older{}, behind: map[string]bool{}, missing: map[string]time.Time{},
	}
}

// arm has a fault happen at its number, counted from now on. One that was armed
// before and has not happened does not happen any more.
func (t *traffic) arm(fault Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault, t.since = fault, len(t.writes)
	clear(t.events)
}

// strikes keeps that a fault happens now. The caller holds the lock.
func (t *traffic) strikes(fault Fault, write int) {
	t.struck = append(t.struck, strike{time.Now(), fault, write})
}

func (t *traffic) wrap(next proxy.RoundTripper) proxy.RoundTripper {
	return func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			if !t.concerns(request.URL.Path) {
				return next(request)
			}
			readable(request)
			return t.write(next, request)
		}
		resource, found := t.narrow(request)
		if !found {
			return next(request)
		}
		readable(request)
		if request.URL.Query().Get("watch") != "" {
			return t.watch(next, request, resource)
		}
		return t.list(next, request, resource)
	}
}

// concerns tells whether a write to a path counts.
func (t *traffic) concerns(path string) bool {
	_, object, found := strings.Cut(path+"/", "/namespaces/"+t.namespace+"/")
	if t.namespace == "" {
		if _, object, found = strings.Cut(path+"/", "/namespaces/"); found {
			_, object, found = strings.Cut(object, "/")
			found = found && object != "" && !strings.Contains(path, "/namespaces/kube-")
		}
	}
	return found && !strings.HasPrefix(object, "events/") && !strings.HasPrefix(object, "leases/") && !strings.HasSuffix(object, "/token/")
}

// metadataPrefix stands before a resource of which only metadata is watched.
const metadataPrefix = "metadata-"

// narrow has a list or watch of all namespaces show one. It returns the resource,
// and whether it is such a list or watch. Metadata alone is a resource of its own,
// as the collector watches it besides.
func (t *traffic) narrow(request *http.Request) (resource string, found bool) {
	resource = path.Base(request.URL.Path)
	switch {
	case t.namespace == "":
		if !t.collections[request.URL.Path] {
			return "", false
		}
	case request.URL.Path == "/api/v1/namespaces":
		query := request.URL.Query()
		query.Set("fieldSelector", "metadata.name="+t.namespace)
		request.URL.RawQuery = query.Encode()
	case t.collections[request.URL.Path]:
		request.URL.Path = path.Dir(request.URL.Path) + "/namespaces/" + t.namespace + "/" + resource
	default:
		return "", false
	}
	if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		resource = metadataPrefix + resource
	}
	return resource, true
}

// readable has the answer come as JSON, and not compressed.
func readable(request *http.Request) {
	request.Header.Del("Accept-Encoding")
	accepted := slices.DeleteFunc(strings.Split(request.Header.Get("Accept"), ","), func(kind string) bool {
		return !strings.HasPrefix(strings.TrimSpace(kind), "application/json")
	})
	if len(accepted) == 0 {
		accepted = []string{"application/json"}
	}
	request.Header.Set("Accept", strings.Join(accepted, ","))
}

func (t *traffic) write(next proxy.RoundTripper, request *http.Request) (*http.Response, error) {
	number, fault := t.beginWrite(request)
	if fault.code != 0 {
		t.endWrite(number, fault.code)
		return proxy.Refuse(request, fault.code), nil
	}
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	t.endWrite(number, response.StatusCode)
	switch fault.Name {
	case "older":
		if err := t.showOlder(fault, response); err != nil {
			return nil, err
		}
		t.strike(fault)
	case "stop", "freeze", "apiserver", "etcd":
		t.strike(fault)
	}
	if fault.Name == "lose" || fault.Name == "stop" || fault.Name == "older" {
		response.Body.Close()
		return nil, proxy.ErrBroken
	}
	return response, nil
}

// beginWrite counts a write. It returns the fault that happens at it, or none.
func (t *traffic) beginWrite(request *http.Request) (number int, fault Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.counting {
		return 0, Fault{}
	}
	_, object, _ := strings.Cut(request.URL.Path, "/namespaces/"+t.namespace)
	t.writes = append(t.writes, Write{At: time.Now(), What: request.Method + " " + strings.TrimPrefix(object, "/")})
	if t.onWrite != nil && time.Since(t.struck[len(t.struck)-1].at) > time.Second { // what the frozen leader had sent has come by then
		go t.onWrite()
		t.onWrite = nil
	}
	number = len(t.writes)
	what := t.writes[number-1].What
	if what == t.policy.what && time.Now().Before(t.policy.until) {
		return number, t.policy.fault
	}
	if t.fault.Name == "" || t.fault.Watch || number-t.since != t.fault.At {
		return number, Fault{}
	}
	if t.fault.lasts {
		t.policy = policy{t.fault, what, time.Now().Add(refusal)}
	}
	if t.fault.Name != "older" { // which happens if there is a list that may be older
		t.strikes(t.fault, number)
	}
	return number, t.fault
}

func (t *traffic) endWrite(number, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number > 0 {
		t.writes[number-1].Code = code
	}
}

// showOlder has the next list of a fault's resource show what was there before a
// write.
func (t *traffic) showOlder(fault Fault, response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var written struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(body, &written); err != nil {
		return fmt.Errorf("read the answer to a write: %w", err)
	}
	version, err := strconv.ParseUint(written.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil // a deletion answers with a Status; then there is nothing older to show
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.older[fault.Of] = older{strconv.FormatUint(version-1, 10), fault}
	return nil
}

func (t *traffic) list(next proxy.RoundTripper, request *http.Request, resource string) (*http.Response, error) {
	query := request.URL.Query()
	if older := t.isOlder(resource); older.version != "" && query.Get("resourceVersion") == "0" {
		query.Set("resourceVersion", older.version)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		request.URL.RawQuery = query.Encode()
		t.mu.Lock()
		delete(t.older, resource)
		t.behind[resource] = true
		t.strikes(older.fault, 0)
		t.mu.Unlock()
	}
	return next(request)
}

// isOlder returns what the next list of a resource is to show, if it is to show
// something older.
func (t *traffic) isOlder(resource string) older {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.older[resource]
}

func (t *traffic) watch(next proxy.RoundTripper, request *http.Request, resource string) (*http.Response, error) {
	streamed := request.URL.Query().Get("sendInitialEvents") != ""
	if streamed && t.isOlder(resource).version != "" {
		return proxy.Refuse(request, http.StatusUnprocessableEntity), nil // as an API server that knows no streamed lists
	}
	if missed, err := t.awaitGap(request.Context(), resource); err != nil {
		return nil, err
	} else if missed && !streamed {
		return proxy.Refuse(request, http.StatusGone), nil
	}
	response, err := next(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	late := time.Duration(0)
	t.mu.Lock()
	t.watched[resource] = true
	if t.behind[resource] {
		delete(t.behind, resource)
		late = lateness
	}
	t.mu.Unlock()
	response.Body = &stream{
		source: bufio.NewReader(response.Body), body: response.Body,
		fate: func(line []byte) error {
			hold := late + t.event(resource, line)
			late = 0
			if hold < 0 {
				return io.EOF
			}
			return pause(request.Context(), hold)
		},
	}
	return response, nil
}

// awaitGap returns when a resource can be seen again, and whether something of it
// was missed.
func (t *traffic) awaitGap(ctx context.Context, resource string) (missed bool, err error) {
	t.mu.Lock()
	until, missed := t.missing[resource]
	delete(t.missing, resource)
	t.mu.Unlock()
	if !missed {
		return false, nil
	}
	return true, pause(ctx, time.Until(until))
}

func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration): // the delay is what this is for
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// event counts one of a watch and returns how long it is held back; less than
// nothing is for ever.
func (t *traffic) event(resource string, line []byte) time.Duration {
	if bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.counting {
		return 0
	}
	t.events[resource]++
	if !t.fault.Watch || t.fault.Of != resource || t.events[resource] != t.fault.At {
		return 0
	}
	t.strikes(t.fault, 0)
	if t.fault.Name == "late" {
		return lateness
	}
	t.missing[resource] = time.Now().Add(gap)
	return -1
}

// count begins to count, or goes on without.
func (t *traffic) count() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = true
}

// seen returns the writes so far, the number of events of each resource, and the
// faults that have happened.
func (t *traffic) seen() (writes []Write, events map[string]int, struck []strike) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes), maps.Clone(t.events), slices.Clone(t.struck)
}

// watches tells whether watches of all of some resources were begun.
func (t *traffic) watches(resources []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(resources, func(r string) bool { return !t.watched[r] })
}

// stream is a watch, of which each line has a fate before it is read.
type stream struct {
	source *bufio.Reader
	body   io.Closer
	fate   func(line []byte) error
	rest   []byte
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		line, err := s.source.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if err := s.fate(line); err != nil {
			return 0, err
		}
		s.rest = line
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) Close() error { return s.body.Close() }
