package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestNoteEnded(t *testing.T) {
	t.Parallel()
	const (
		failed    = "Warning FailedDaemonPod Found failed daemon pod ns/b-new on node b, will try to kill it"
		succeeded = "Normal SucceededDaemonPod Found succeeded daemon pod ns/b-new on node b, will try to delete it"
	)
	for name, tt := range map[string]struct {
		node      string
		wantEvent string
		wantPause time.Duration
	}{
		"a pod that has failed is told of, and its node has a pause": {"b: new failed", failed, time.Second},
		"also where none is to come but one may stay":                {"b: tainted, new failed", failed, time.Second},
		"a pod that has succeeded is told of":                        {"b: new succeeded", succeeded, 0},
		"one that works is not told of":                              {"b: new available", "", 0},
		"one that has failed where none may stay goes like others":   {"b: barred, new failed", "", 0},
		"and so does one that has succeeded there":                   {"b: barred, new succeeded", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := record.NewFakeRecorder(1)
			c := &Controller{
				events:   &controller.Events{EventRecorder: recorder},
				failures: flowcontrol.NewFakeBackOff(time.Second, time.Minute, clocktesting.NewFakeClock(testNow)),
			}
			seen := seenOn(testSet(), "a: barred", tt.node, "c: barred")
			c.noteEnded(seen, seen.places[1].pods[0])
			event := ""
			if len(recorder.Events) > 0 {
				event = <-recorder.Events
			}
			assert.Equal(t, tt.wantEvent, event, "event about the DaemonSet")
			assert.Equal(t, tt.wantPause, c.pause(seen.set, "b", seen.now), "pause of node b")
		})
	}
}
