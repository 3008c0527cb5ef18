package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Events is where a loop records events. What is recorded before Start is lost, and
// just before the end it may be: events are a courtesy, not a record.
type Events struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	client      kubernetes.Interface
}

// NewEvents returns a recorder whose events name component as their source.
func NewEvents(ctx context.Context, client kubernetes.Interface, component string) *Events {
	// Were the broadcaster to end with ctx, it would end before the loop has.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	return &Events{
		EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}),
		broadcaster:   broadcaster,
		client:        client,
	}
}

// Start sends events to the API server, and to the log from verbosity 3,
// until stop is called.
func (e *Events) Start() (stop func()) {
	e.broadcaster.StartStructuredLogging(3)
	e.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: e.client.CoreV1().Events("")})
	return e.broadcaster.Shutdown
}
