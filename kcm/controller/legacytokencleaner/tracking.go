package legacytokencleaner

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// trackingName is the ConfigMap in kube-system in which the API servers say since when they have
	// noted the use of tokens: under "since", a day in UTC.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey     = "since"

	// believed is how long an answer of the API server is good, also if it is an error.
	believed = 10 * time.Minute
)

// tracking knows since when the use of tokens has been noted. It asks the API server when that is
// needed, and for however many tokens that may be, once in ten minutes.
type tracking struct {
	configMaps corev1client.ConfigMapInterface

	mu      sync.Mutex
	askedAt time.Time
	begin   time.Time
	err     error
}

// covers tells whether the use of tokens has been noted since a moment. Where nothing is said about
// that it has not.
func (t *tracking) covers(ctx context.Context, since, now time.Time) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.askedAt.IsZero() || now.Sub(t.askedAt) >= believed {
		t.begin, t.err = t.ask(ctx)
		t.askedAt = now
	}
	return !t.begin.IsZero() && !t.begin.After(since), t.err
}

// ask returns the end of the day on which the API servers have begun, from which on all use has been
// noted. It is zero where the ConfigMap is not there or says no day: an API server is about to put
// that right.
func (t *tracking) ask(ctx context.Context) (begin time.Time, err error) {
	configMap, err := t.configMaps.Get(ctx, trackingName, metav1.GetOptions{})
	if err != nil && !controller.IsGone(err) {
		return time.Time{}, fmt.Errorf("ask for config map %s: %w", klog.KRef(metav1.NamespaceSystem, trackingName), err)
	}
	if err == nil {
		if day, err := time.Parse(time.DateOnly, configMap.Data[sinceKey]); err == nil {
			return day.AddDate(0, 0, 1), nil
		}
	}
	klog.FromContext(ctx).Info("No token is taken out of use: nothing says since when their use has been noted",
		"configMap", klog.KRef(metav1.NamespaceSystem, trackingName))
	return time.Time{}, nil
}
