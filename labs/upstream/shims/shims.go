// Package shims has what shims of several loops need.
package shims

import "context"

// Loop is a loop of kcm's. As an interface its Run is not inlined, and found in the program.
type Loop interface {
	Run(ctx context.Context, workers int)
}
