package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestATemplateWithoutLabelsIsWrittenDown(t *testing.T) {
	t.Parallel()
	set := testSet(func(set *appsv1.DaemonSet) {
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
		set.Spec.Template.Labels = nil
	})
	c := &Controller{
		client:         fake.NewClientset(set),
		revisionWrites: controller.NewOwnWrites(cache.NewStore(cache.MetaNamespaceKeyFunc)),
	}
	revision, err := c.currentRevision(t.Context(), observed{set: set})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{hashLabel: revisionHash(revision)}, revision.Labels)
	assert.NotEmpty(t, revisionHash(revision))
}
