// Package await is how labs, scenarios and tests wait: for what is true, with a deadline, and with an error that says
// what was there instead.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Until looks at once and then at that interval, until look returns nil. Any other error says what look has seen
// instead. After the timeout, the error of Until says what was waited for, for how long, and wraps what was seen last.
// Until also gives up when ctx ends, with its cause, and when look returns a [Fatal] error, with that.
//
// The context that look gets ends with the timeout. What look says after that was not seen in time, and counts only if
// there is nothing else to tell.
func Until(ctx context.Context, every, timeout time.Duration, what string, look func(context.Context) error) error {
	var seen error
	err := wait.PollUntilContextTimeout(ctx, every, timeout, true, func(ctx context.Context) (bool, error) {
		err := look(ctx)
		if errors.As(err, new(fatal)) {
			return false, err
		}
		if ctx.Err() == nil || seen == nil {
			seen = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(fatal)):
		return fmt.Errorf("waiting until %s: %w", what, err)
	case ctx.Err() != nil:
		return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
	default:
		return fmt.Errorf("waited %v until %s; last seen: %w", timeout, what, seen)
	}
}

// Fatal is what look returns when there is no use in looking again.
func Fatal(err error) error { return fatal{err} }

type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }
