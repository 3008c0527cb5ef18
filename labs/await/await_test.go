package await_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/await"
)

func TestItLooksAtOnceAndThenAtTheIntervalUntilNothingIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var looks []time.Duration
		what := "it is the third look"
		require.NoError(t, await.Until(t.Context(), time.Second, time.Minute, what, func(context.Context) error {
			looks = append(looks, time.Since(begin))
			if len(looks) < 3 {
				return errors.New("not yet")
			}
			return nil
		}))
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, looks)
	})
}

func TestAfterTheTimeoutTheErrorSaysWhatWasSeenLastInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errPods := errors.New("2 of 3 pods")
		looks := 0
		err := await.Until(t.Context(), time.Second, 10*time.Second, "all pods are Ready", func(ctx context.Context) error {
			if looks++; looks > 4 {
				<-ctx.Done()
				return ctx.Err()
			}
			return fmt.Errorf("look %d: %w", looks, errPods)
		})
		require.EqualError(t, err, "waited 10s until all pods are Ready; last seen: look 4: 2 of 3 pods")
		require.ErrorIs(t, err, errPods)
	})
}

func TestALookThatNeverComesBackInTimeIsToldToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := await.Until(t.Context(), time.Second, 10*time.Second, "the server answers", func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("no answer")
		})
		require.EqualError(t, err, "waited 10s until the server answers; last seen: no answer")
	})
}

func TestAFatalErrorEndsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := await.Until(t.Context(), time.Second, time.Minute, "it leads", func(context.Context) error {
			return fmt.Errorf("kcm: %w", await.Fatal(context.DeadlineExceeded))
		})
		require.EqualError(t, err, "waiting until it leads: kcm: context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(begin))
	})
}

func TestTheEndOfTheContextEndsItWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("the lab is over")
		time.AfterFunc(3500*time.Millisecond, func() { cancel(ended) })
		err := await.Until(ctx, time.Second, time.Minute, "it leads",
			func(context.Context) error { return errors.New("not yet") })
		require.EqualError(t, err, "waiting until it leads: the lab is over")
		require.ErrorIs(t, err, ended)
	})
}
