package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// taken returns the steps that nobody has taken yet.
func taken(t *testing.T, l *trace.Listener) (steps []trace.Step) {
	t.Helper()
	for line := range bytes.Lines(l.Take()) {
		var step trace.Step
		require.NoError(t, json.Unmarshal(line, &step), "%s", line)
		steps = append(steps, step)
	}
	return steps
}

func TestALoopTellsWhatItQueuesAndWhenAFailingKeyComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := trace.Listen("traced")
		defer listener.Stop()
		fails := 2
		l := NewLoop(LoopConfig[cache.ObjectName]{
			Name: "traced", QueueName: "traced", MaxRetries: RetryForever,
			Sync: func(context.Context, cache.ObjectName) error {
				if fails--; fails >= 0 {
					return errors.New("not yet")
				}
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.Run(ctx, 1); close(done) }()
		l.Add(cache.NewObjectName("traced", "web"))
		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		cancel()
		<-done

		var told []string
		for _, step := range taken(t, listener) {
			text := string(step.What)
			if step.What == trace.Queued {
				text += " after " + time.Duration(step.Seconds*float64(time.Second)).Round(time.Millisecond).String()
			}
			if step.Error != "" {
				text += ": " + step.Error
			}
			told = append(told, text)
		}
		require.NotEmpty(t, told)
		assert.Equal(t, []string{
			"queued after 0s", "begun", "ended: not yet",
			"queued after 5ms", "begun", "ended: not yet",
			"queued after 10ms", "begun", "ended",
		}, told)
	})
}

func TestAKeyThatWaitsAlreadyIsToldAgainOnlyWhenItIsDueSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := trace.Listen("waiting")
		defer listener.Stop()
		l := NewLoop(LoopConfig[cache.ObjectName]{
			Name: "waiting", QueueName: "waiting", Sync: func(context.Context, cache.ObjectName) error { return nil },
		})
		defer l.queue.ShutDown()
		web := cache.NewObjectName("waiting", "web")
		for _, delay := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute, time.Second, 5 * time.Second, 0} {
			l.AddAfter(web, delay)
		}
		var delays []float64
		for _, step := range taken(t, listener) {
			delays = append(delays, step.Seconds)
		}
		assert.Equal(t, []float64{60, 1, 0}, delays)
	})
}
