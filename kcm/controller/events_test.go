package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// eventServer is an API server that keeps the events that it is sent, as text.
type eventServer struct {
	// awayUntil is until when it refuses connections.
	awayUntil time.Time
	got       []string
}

func (s *eventServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if time.Now().Before(s.awayUntil) {
		return nil, errors.New("connection refused")
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	event := &corev1.Event{}
	if err := json.Unmarshal(body, event); err != nil {
		return nil, err
	}
	namespace := strings.Split(request.URL.Path, "/")[4] // /api/v1/namespaces/NAME/events
	text := fmt.Sprintf("%s %s: %s, about %s %s, from %s, in the namespace %s", event.Type, event.Reason, event.Message,
		event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Source.Component, namespace)
	if request.Method == "PATCH" {
		text = fmt.Sprintf("the same, %d times by now", event.Count)
	}
	s.got = append(s.got, text)
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
}

// recording is a manager that records events at a server.
type recording struct {
	*Events
	server *eventServer
	logger klog.Logger
	// end ends the context that the events were made with.
	end func()
}

func newRecording(t *testing.T, verbosity int) *recording {
	t.Helper()
	server := &eventServer{}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: server, QPS: -1})
	require.NoError(t, err)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(verbosity), ktesting.BufferLogs(true)))
	ctx, end := context.WithCancel(klog.NewContext(t.Context(), logger))
	events := NewEvents(ctx, client, "kcm")
	t.Cleanup(func() { end(); events.broadcaster.Shutdown() })
	return &recording{events, server, logger, end}
}

// up records that something is up.
func (r *recording) up(kind, namespace, name string) {
	object := &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
	r.Event(object, corev1.EventTypeNormal, "Started", name+" is up")
}

// sent is what the server has by now.
func (r *recording) sent() string {
	synctest.Wait()
	return strings.Join(r.server.got, "\n")
}

//exercise:race
func TestEvents(t *testing.T) {
	t.Parallel()
	const aboutWeb = "Normal Started: web is up, about Pod web, from kcm, in the namespace shop"
	for _, test := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"an event says what happened, to whom, and who saw it", func(t *testing.T) {
			r := newRecording(t, 0)
			defer r.Start()()
			r.up("Pod", "shop", "web")
			assert.Equal(t, aboutWeb, r.sent(), "what the API server has got; an event about the pod shop/web was recorded")
		}},
		{"an event about what is in no namespace is in default", func(t *testing.T) {
			r := newRecording(t, 0)
			defer r.Start()()
			r.up("Node", "", "one")
			assert.Equal(t, "Normal Started: one is up, about Node one, from kcm, in the namespace default", r.sent(),
				"what the API server has got; an event about a node was recorded")
		}},
		{"the same event again is counted", func(t *testing.T) {
			r := newRecording(t, 0)
			defer r.Start()()
			r.up("Pod", "shop", "web")
			_ = r.sent()
			r.up("Pod", "shop", "web")
			assert.Equal(t, aboutWeb+"\nthe same, 2 times by now", r.sent(), "what the API server has got; the same was recorded twice")
		}},
		{"recording does not wait for the API server", func(t *testing.T) {
			r := newRecording(t, 0)
			r.server.awayUntil = time.Now().Add(time.Minute)
			defer r.Start()()
			before := time.Now()
			for range 10 {
				r.up("Pod", "shop", "web")
			}
			assert.Equal(t, "0s", time.Since(before).String(), "how long it took to record ten events; the API server is away")
		}},
		{"an API server that is away gets its events when it is back", func(t *testing.T) {
			r := newRecording(t, 0)
			r.server.awayUntil = time.Now().Add(30 * time.Second)
			defer r.Start()()
			r.up("Pod", "shop", "web")
			<-time.After(time.Minute)
			assert.Equal(t, aboutWeb, r.sent(), "what the API server has got, a minute after an event was recorded; it was away for 30 s")
		}},
		{"events of the time in which the loops stop are sent", func(t *testing.T) {
			r := newRecording(t, 0)
			defer r.Start()()
			r.end()
			synctest.Wait()
			r.up("Pod", "shop", "web")
			assert.Equal(t, aboutWeb, r.sent(), "what the API server has got; an event was recorded when the context had ended, and stop was not called yet")
		}},
		{"nothing is sent before Start", func(t *testing.T) {
			r := newRecording(t, 0)
			r.up("Pod", "shop", "web")
			assert.Empty(t, r.sent(), "what the API server has got; Start was not called")
		}},
		{"nothing is sent after stop", func(t *testing.T) {
			r := newRecording(t, 0)
			r.Start()()
			r.up("Pod", "shop", "web")
			assert.Empty(t, r.sent(), "what the API server has got; stop was called before an event was recorded")
		}},
		{"what was sent before stop was sent", func(t *testing.T) {
			r := newRecording(t, 0)
			stop := r.Start()
			r.up("Pod", "shop", "web")
			seen := r.sent()
			stop()
			assert.Equal(t, aboutWeb, seen, "what the API server has got; an event was recorded, and then stop was called")
		}},
		{"events are in the log from verbosity 3", func(t *testing.T) {
			for verbosity, want := range map[int]bool{2: false, 3: true} {
				r := newRecording(t, verbosity)
				stop := r.Start()
				r.up("Pod", "shop", "web")
				_ = r.sent()
				stop()
				log := r.logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				assert.Equal(t, want, strings.Contains(log, "web is up"), "whether the event is in the log with --v=%d", verbosity)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test.check)
		})
	}
}
