package namespace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnasked(t *testing.T) {
	t.Parallel()
	type objects = []metav1.PartialObjectMetadata
	for _, test := range []struct {
		behaviour, situation string
		there                objects
		want                 string
	}{
		{"an object that nobody has deleted is to be deleted", "one of two is being deleted",
			objects{object("a"), object("b", going)}, "a"},
		{"an object that is going is not asked again", "a pod has 30 seconds, a ConfigMap waits for a finalizer of somebody",
			objects{object("web", graceful(30)), object("ledger", going, heldBy("example.com/audit"))}, "none"},
		{"an object that waits for its dependents is asked again", "a Deployment was deleted in the foreground",
			objects{object("web", going, heldBy("foregroundDeletion"))}, "web"},
		{"an object that waits until its dependents are orphans is asked again", "a Deployment was deleted with --cascade=orphan",
			objects{object("web", going, heldBy("orphan"))}, "web"},
		{"a pod that is still stopping is not asked again", "two pods were deleted in the foreground, and one has 30 seconds left",
			objects{object("web", graceful(30), heldBy("foregroundDeletion")), object("done", going, heldBy("foregroundDeletion"))}, "done"},
		{"of several finalizers one is enough", "one finalizer is an application's, and one the garbage collector's",
			objects{object("web", going, heldBy("example.com/audit", "foregroundDeletion"))}, "web"},
		{"a finalizer does not keep an object from being asked", "nobody has deleted it, and it has a finalizer",
			objects{object("ledger", heldBy("example.com/audit"))}, "ledger"},
		{"where nothing is there nothing is to be deleted", "no objects", nil, "none"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, names(unasked(test.there)), "to be deleted: %s", test.situation)
		})
	}
}
