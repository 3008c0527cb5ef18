package faults

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
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

// Write is one write of a manager to its namespace. Events and Leases do not count.
type Write struct {
	At time.Time
	// What is method and path in the namespace, such as PUT replicasets/web-1/status.
	What string
	// Code is that of the answer, or 0 as long as there is none.
	Code int
}

// kind is the verb, the resource and the subresource of a write, whatever the name.
func (w Write) kind() string {
	parts := strings.Split(w.What, "/")
	if len(parts) > 1 {
		parts[1] = ""
	}
	return strings.Join(parts, "/")
}

// traffic is what passes between a run's managers and the API server.
type traffic struct {
	namespace string // the only one that the managers see, or "" for all
	// collections are the paths of all namespaced resources in all namespaces, if the managers see one.
	collections map[string]bool
	// strike is what happens outside of the proxy when a fault's number is reached.
	strike func(Fault)
	// labelled are resources in no namespace that the managers write. They see those alone whose zone is the namespace.
	labelled []string
	// elsewhere are the namespaces of resources that the managers see in another one.
	elsewhere map[string]string
	late      time.Duration // how late an event is

	mu      sync.Mutex
	watched map[string]bool // resources of which a watch was begun
	onWrite func()          // is called once, at the first write after settled
	settled time.Time
	armed
}

// armed is a fault that is to happen, and what has become of it.
type armed struct {
	fault  Fault
	writes []*Write       // since it was armed
	events map[string]int // since then, by resource
	struck struck

	refused string    // a write that a policy refuses
	until   time.Time // when the policy ends
	older   string    // the version that the next list of the fault's resource is to show
	behind  bool      // the next watch of the fault's resource is late
	missing time.Time // until when nothing of the fault's resource is seen, if something was missed
}

// struck is when a fault has happened.
type struck struct {
	at   time.Time // zero is not yet
	what string    // the write, list or event at which it has happened
	// again is when what a policy had refused was first written without being refused, or zero.
	again time.Time
}

func newTraffic(namespace string, collections map[string]bool, fault Fault, strike func(Fault)) *traffic {
	t := &traffic{namespace: namespace, collections: collections, strike: strike, watched: map[string]bool{}}
	t.late = lateness
	t.arm(fault)
	return t
}

// arm has a fault happen at its number, counted from now on. One that was armed before and has not happened does not
// happen any more.
func (t *traffic) arm(fault Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = armed{fault: fault, events: map[string]int{}}
}

func (t *traffic) wrap(next proxy.RoundTripper) proxy.RoundTripper {
	return func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			return t.write(next, request)
		}
		resource, found := t.narrow(request)
		switch {
		case !found:
			return next(request)
		case request.URL.Query().Get("watch") != "":
			return t.watch(next, request, resource)
		}
		return t.list(next, request, resource)
	}
}

// inNamespace finds the namespace and the object of a write.
var inNamespace = regexp.MustCompile(`/namespaces/([^/]+)/(.+)`)

// besides finds the objects of writes that are no work of a loop.
var besides = regexp.MustCompile(`^(events|leases)(/|$)|/token$`)

// counts tells whether a write to a path counts, and what it writes.
func (t *traffic) counts(path string) (object string, counts bool) {
	for _, resource := range t.labelled {
		if _, name, is := strings.Cut(path, "/"+resource+"/"); is {
			return resource + "/" + name, true
		}
	}
	found := inNamespace.FindStringSubmatch(path)
	if found == nil || besides.MatchString(found[2]) {
		return "", false
	}
	resource, _, _ := strings.Cut(found[2], "/")
	here := found[1] == cmp.Or(t.elsewhere[resource], t.namespace)
	return found[2], here || t.namespace == "" && !strings.HasPrefix(found[1], "kube-")
}

// metadataPrefix stands before a resource of which only metadata is watched.
const metadataPrefix = "metadata-"

// narrow has a list or watch of all namespaces show one, and one of what is in none show what is labelled. It returns
// the resource, and whether it is such a list or watch. Metadata alone is a resource of its own, as the collector
// watches it besides.
func (t *traffic) narrow(request *http.Request) (resource string, found bool) {
	resource = path.Base(request.URL.Path)
	in := "/namespaces/" + cmp.Or(t.elsewhere[resource], t.namespace) + "/" + resource
	switch {
	case t.namespace == "":
	case request.URL.Path == "/api/v1/namespaces":
		request.URL.RawQuery += "&fieldSelector=metadata.name%3D" + t.namespace
	case slices.Contains(t.labelled, resource):
		request.URL.RawQuery += "&labelSelector=topology.kubernetes.io/zone%3D" + t.namespace
	case t.elsewhere[resource] != "" && strings.HasSuffix(request.URL.Path, in): // it looks there by itself
	case t.collections[request.URL.Path]:
		request.URL.Path = path.Dir(request.URL.Path) + in
	default:
		return "", false
	}
	if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
		resource = metadataPrefix + resource
	}
	return resource, true
}

func (t *traffic) write(next proxy.RoundTripper, request *http.Request) (*http.Response, error) {
	object, counts := t.counts(request.URL.Path)
	if !counts {
		return next(request)
	}
	write, fault := t.beginWrite(request.Method + " " + object)
	if fault.code != 0 {
		t.endWrite(write, fault.code)
		return proxy.Refuse(request, fault.code), nil
	}
	proxy.Readable(request)
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	t.endWrite(write, response.StatusCode)
	if fault.Name == "older" {
		if err := t.showOlder(response); err != nil {
			return nil, err
		}
	}
	switch fault.Name {
	case "stop", "freeze", "apiserver", "etcd", "older":
		t.strike(fault)
	}
	switch fault.Name {
	case "lose", "stop", "older":
		response.Body.Close()
		return nil, proxy.ErrBroken
	}
	return response, nil
}

// beginWrite counts a write. It returns the fault that happens at it, or none.
func (t *traffic) beginWrite(what string) (*Write, Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	write := &Write{At: now, What: what}
	t.writes = append(t.writes, write)
	if t.onWrite != nil && now.After(t.settled) {
		go t.onWrite()
		t.onWrite = nil
	}
	switch {
	case what == t.refused && now.Before(t.until):
		return write, t.fault
	case what == t.refused && t.struck.again.IsZero():
		t.struck.again = now
		return write, Fault{}
	case t.fault.Name == "" || t.fault.Watch || len(t.writes) != t.fault.At:
		return write, Fault{}
	case t.fault.lasts:
		t.refused, t.until = what, now.Add(refusal)
	}
	if t.fault.Name != "older" { // which happens if there is a list that may be older
		t.struck = struck{at: now, what: what}
	}
	return write, t.fault
}

func (t *traffic) endWrite(write *Write, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	write.Code = code
}

// showOlder has the next list of the fault's resource show what was there before a write.
func (t *traffic) showOlder(response *http.Response) error {
	var written metav1.PartialObjectMetadata
	if err := json.NewDecoder(response.Body).Decode(&written); err != nil {
		return fmt.Errorf("read the answer to a write: %w", err)
	}
	version, err := strconv.ParseUint(written.ResourceVersion, 10, 64)
	if err != nil {
		return nil // a deletion answers with a Status; then there is nothing older to show
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.older = strconv.FormatUint(version-1, 10)
	return nil
}

func (t *traffic) list(next proxy.RoundTripper, request *http.Request, resource string) (*http.Response, error) {
	query := request.URL.Query()
	t.mu.Lock()
	if resource == t.fault.Of && t.older != "" && query.Get("resourceVersion") == "0" {
		query.Set("resourceVersion", t.older)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		request.URL.RawQuery = query.Encode()
		t.older, t.behind = "", true
		t.struck = struck{at: time.Now(), what: "a list of " + resource}
	}
	t.mu.Unlock()
	return next(request)
}

func (t *traffic) watch(next proxy.RoundTripper, request *http.Request, resource string) (*http.Response, error) {
	streamed := request.URL.Query().Get("sendInitialEvents") != ""
	older, late, missing := t.beginWatch(resource)
	if streamed && older {
		return proxy.Refuse(request, http.StatusUnprocessableEntity), nil // as an API server that knows no streamed lists
	}
	if !missing.IsZero() {
		if err := proxy.Pause(request.Context(), missing); err != nil {
			return nil, err
		}
		if !streamed {
			return proxy.Refuse(request, http.StatusGone), nil
		}
	}
	response, err := proxy.Watch(next, request, func(ctx context.Context, line []byte, _ time.Time) error {
		hold, missed := t.event(resource, line)
		if missed {
			return io.EOF
		}
		hold, late = hold+late, 0
		return proxy.Pause(ctx, time.Now().Add(hold))
	})
	if err == nil && response.StatusCode == http.StatusOK {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.watched[resource] = true
	}
	return response, err
}

// beginWatch tells what is to be disturbed of a resource that is watched anew: its list is to be older, its first event
// late, or nothing is to be seen for a time.
func (t *traffic) beginWatch(resource string) (older bool, late time.Duration, missing time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if resource != t.fault.Of {
		return false, 0, time.Time{}
	}
	if t.behind {
		late = t.late
	}
	missing = t.missing
	t.behind, t.missing = false, time.Time{}
	return t.older != "", late, missing
}

// event counts one of a watch and returns how long it is held back, and whether it is missed.
func (t *traffic) event(resource string, line []byte) (hold time.Duration, missed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
		return 0, false
	}
	t.events[resource]++
	if !t.fault.Watch || t.fault.Of != resource || t.events[resource] != t.fault.At {
		return 0, false
	}
	t.struck = struck{at: time.Now(), what: "an event of " + resource}
	if t.fault.Name == "late" {
		return t.late, false
	}
	t.missing = time.Now().Add(gap)
	return 0, true
}

// atNextWrite calls a function once, at the next write of who goes on when another one was frozen: after a second, all
// that this one had sent has come.
func (t *traffic) atNextWrite(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onWrite, t.settled = do, time.Now().Add(time.Second)
}

// seen returns the writes and the number of events of each resource since the fault was armed, and whether it has
// happened.
func (t *traffic) seen() (writes []Write, events map[string]int, struck struck) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, write := range t.writes {
		writes = append(writes, *write)
	}
	return writes, maps.Clone(t.events), t.struck
}

// watches tells whether watches of all of some resources were begun.
func (t *traffic) watches(resources []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(resources, func(r string) bool { return !t.watched[r] })
}
