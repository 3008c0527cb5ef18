//go:build upstream

package serviceaccount

import (
	"context"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller/legacytokencleaner"
	"github.com/kcm-book/kcm-book/labs/upstream/shims"
)

// LegacySATokenCleanerOptions are upstream's. How often kcm's loop looks is a constant; the suite is built with the one
// that it asks for.
type LegacySATokenCleanerOptions struct {
	CleanUpPeriod, SyncInterval time.Duration
}

// LegacySATokenCleaner is kcm's loop with one worker.
type LegacySATokenCleaner struct{ loop shims.Loop }

// NewLegacySATokenCleaner returns kcm's loop, by the clock of the suite.
func NewLegacySATokenCleaner(
	accounts coreinformers.ServiceAccountInformer,
	secrets coreinformers.SecretInformer,
	pods coreinformers.PodInformer,
	client kubernetes.Interface,
	now clock.PassiveClock,
	options LegacySATokenCleanerOptions,
) (*LegacySATokenCleaner, error) {
	loop := legacytokencleaner.NewWithClock(now, accounts, secrets, pods, client, options.CleanUpPeriod)
	return &LegacySATokenCleaner{loop}, nil
}

// Run works until ctx ends.
func (c *LegacySATokenCleaner) Run(ctx context.Context) { c.loop.Run(ctx, 1) }
