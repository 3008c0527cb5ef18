package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

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
		revisionWrites: controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(cache.NewStore(cache.MetaNamespaceKeyFunc))},
	}
	h, err := c.settleHistory(t.Context(), observed{set: set})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{hashLabel: revisionHash(h.current)}, h.current.Labels)
	assert.NotEmpty(t, revisionHash(h.current))
}

// twins are two revisions with one template and one hash, of DaemonSets with two names.
func twins() []*appsv1.ControllerRevision {
	revisions := append(testRevisions("x"), testRevisions("x")...)
	revisions[0].Name, revisions[1].Revision = "other", 2
	return revisions
}

func TestARevisionIsDeletedOnceAndOnlyWhenNoPodHasIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		revisions []*appsv1.ControllerRevision
		inUse     sets.Set[string]
		want      []string
	}{
		"a duplicate":                            {testRevisions("xX"), sets.New("X"), []string{"delete agent-x"}},
		"a pod has its hash":                     {testRevisions("xX"), sets.New("x", "X"), nil},
		"a finalizer holds it":                   {going(testRevisions("xX"), "x"), sets.New("X"), nil},
		"the hash is the current one's as well":  {twins(), sets.New("x"), []string{"delete other"}},
		"an old one above the limit":             {testRevisions("abX"), sets.New("X"), []string{"delete agent-a"}},
		"what a finalizer holds takes no room":   {going(testRevisions("abX"), "b"), sets.New("X"), nil},
		"and it goes no second time":             {going(testRevisions("abcX"), "a"), sets.New("X"), []string{"delete agent-b"}},
		"of what is left of it the hash is used": {going(testRevisions("abcX"), "a"), sets.New("a", "b"), []string{"delete agent-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &fake.Clientset{}
			c := &Controller{client: client}
			set := testSet(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = new(int32(1)) })
			require.NoError(t, c.deleteRevisions(t.Context(), observed{set: set, inUse: tt.inUse, history: sortOut(tt.revisions, []byte("x"))}))
			var got []string
			for _, action := range client.Actions() {
				got = append(got, action.GetVerb()+" "+action.(clienttesting.DeleteAction).GetName())
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestARefusalAboutADuplicateIsToldAndKeepsNothingUp(t *testing.T) {
	t.Parallel()
	for _, refusal := range refusals {
		t.Run(string(apierrors.ReasonForError(refusal)), func(t *testing.T) {
			t.Parallel()
			client, refused := &fake.Clientset{}, true
			client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if refused {
					return true, nil, refusal
				}
				return true, &corev1.Pod{}, nil
			})
			c := &Controller{
				client: client, podControl: controller.NewPodControl(client, &record.FakeRecorder{}),
				podWrites: controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})},
			}
			seen := seenOn(testSet(), "a: old available", "b: new available")
			seen.history = history{current: testRevision("new", 2), duplicates: []*appsv1.ControllerRevision{testRevision("old", 1)}}
			seen.inUse = sets.New("new")
			assert.Equal(t, "nothing", decide(seen, burstReplicas).String(), "the pods are of one version")
			require.ErrorIs(t, c.mergeDuplicates(t.Context(), seen), refusal)
			require.ErrorIs(t, c.deleteRevisions(t.Context(), seen), refusal)
			refused = false
			require.NoError(t, c.mergeDuplicates(t.Context(), seen))
			require.NoError(t, c.deleteRevisions(t.Context(), seen))
			assert.Len(t, client.Actions(), 4, "each is asked for again")
		})
	}
}
