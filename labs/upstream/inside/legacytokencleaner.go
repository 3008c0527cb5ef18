//go:build upstream

// This file is built as one more of kcm's own package.

package legacytokencleaner

import (
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// NewWithClock returns what New does, but by another clock: the suite lets days pass at once. How often it looks goes by the
// real one.
func NewWithClock(
	now clock.PassiveClock,
	accounts coreinformers.ServiceAccountInformer,
	secrets coreinformers.SecretInformer,
	pods coreinformers.PodInformer,
	client kubernetes.Interface,
	cleanUpPeriod time.Duration,
) *Controller {
	return newController(now, accounts, secrets, pods, client, cleanUpPeriod)
}
