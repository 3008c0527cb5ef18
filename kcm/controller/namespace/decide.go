package namespace

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// finalizing is how many seconds whoever put a finalizer on an object is
// thought to need.
const finalizing = 15

// plan is what is to be done about a namespace after it was emptied as far as
// that went.
type plan struct {
	// namespace has the status that is to be written if status is true.
	namespace *corev1.Namespace
	status    bool
	// finalize says that it is empty and nothing holds it any more.
	finalize bool
	// again is when to look again if there is no failure; zero is never.
	again time.Duration
	// failure has the namespace tried again, at ever longer intervals.
	failure error
}

// decide returns what follows from what is left of a namespace. If less than five
// seconds are over, the caller has asked for another look already.
func decide(left remains) plan {
	if left.elapsed < lateCreations {
		return plan{namespace: left.namespace}
	}
	estimate, unaccounted := account(left)
	left.failures = append(left.failures, unaccounted...)
	p := plan{namespace: left.namespace.DeepCopy()}
	p.status = setStatus(&p.namespace.Status, problems(left), metav1.NewTime(left.now))
	failure := errors.Join(append(left.failures, left.discovery, left.parsing)...)
	switch {
	case failure != nil:
		p.failure = fmt.Errorf("empty namespace %s: %w", left.namespace.Name, failure)
	case len(left.objects) > 0:
		p.again = patience(left.waited, estimate)
	default:
		p.finalize = true
	}
	return p
}

// account returns how many seconds the objects that are left may take to go, and
// an error for each resource of which nothing says why it is still there.
func account(left remains) (estimate int64, unaccounted []error) {
	for resource, objects := range left.objects {
		var seconds int64
		for _, object := range objects {
			if len(object.Finalizers) > 0 {
				seconds = max(seconds, finalizing)
			}
			if grace := object.DeletionGracePeriodSeconds; grace != nil && left.elapsed < controller.Seconds(*grace) {
				seconds = max(seconds, *grace)
			}
		}
		if seconds == 0 {
			unaccounted = append(unaccounted,
				fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", left.namespace.Name, resource))
		}
		estimate = max(estimate, seconds)
	}
	return estimate, unaccounted
}

// patience returns how long to wait before the next look at a namespace, whose
// objects were asked to go so long ago, and may take as many seconds as estimated.
func patience(waited time.Duration, estimate int64) time.Duration {
	longest := controller.Seconds(estimate/2 + 1)
	return min(max(waited/4, time.Second/2), longest)
}
