package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

func TestALoopTellsWhatItQueuesAndWhenAFailingKeyComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps, stop := trace.Listen("traced")
		defer stop()
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
		for len(steps) > 0 {
			step := <-steps
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
		steps, stop := trace.Listen("waiting")
		defer stop()
		l := NewLoop(LoopConfig[cache.ObjectName]{
			Name: "waiting", QueueName: "waiting", Sync: func(context.Context, cache.ObjectName) error { return nil },
		})
		defer l.queue.ShutDown()
		web := cache.NewObjectName("waiting", "web")
		for _, delay := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute, time.Second, 5 * time.Second, 0} {
			l.AddAfter(web, delay)
		}
		var delays []float64
		for len(steps) > 0 {
			delays = append(delays, (<-steps).Seconds)
		}
		assert.Equal(t, []float64{60, 1, 0}, delays)
	})
}
