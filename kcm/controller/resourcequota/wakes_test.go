package resourcequota

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// servers are the API server: comets are seen by their metadata only.
type servers struct {
	client *fake.Clientset
	comets *metadatafake.FakeMetadataClient
	resync time.Duration
}

func newServers(t *testing.T, objects ...runtime.Object) *servers {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	return &servers{client: fake.NewClientset(objects...), comets: metadatafake.NewSimpleMetadataClient(scheme, comet("halley"))}
}

// starting returns what makes both loops for quotas. They note what they are asked to look
// at, and sync that only if they are said to.
func (s *servers) starting(syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := NewController(ctx, &ControllerOptions{
			QuotaClient: s.client.CoreV1(), ResourceQuotaInformer: factory.Core().V1().ResourceQuotas(),
			ResyncPeriod: func() time.Duration { return s.resync },
			DiscoveryFunc: func() ([]*metav1.APIResourceList, error) {
				return []*metav1.APIResourceList{notesAreServed(), cometsAreServed()}, nil
			},
			InformerFactory: factory, Metadata: s.comets,
		})
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.uncounted.Sync, note, syncs)
		bubble.Note(&c.others.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a pod: what it requests and may use at most, its scopes, phase, and whether it is to go;
//   - a Service: its type and ports; a claim of storage: size and class. That is, of each of
//     them its charge;
//   - of what is only counted, whether it is there;
//   - of their informers, whether they have synced.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, s *servers) error
	podWith := func(edit func(*corev1.Pod)) change {
		return func(ctx context.Context, s *servers) error {
			return bubble.Edit(ctx, s.client.CoreV1().Pods("here"), "web", edit)
		}
	}
	service := func(edit func(*corev1.Service)) change {
		return func(ctx context.Context, s *servers) error {
			return bubble.Edit(ctx, s.client.CoreV1().Services("here"), "web", edit)
		}
	}
	claim := func(edit func(*corev1.PersistentVolumeClaim)) change {
		return func(ctx context.Context, s *servers) error {
			return bubble.Edit(ctx, s.client.CoreV1().PersistentVolumeClaims("here"), "disk", edit)
		}
	}
	quotaWith := func(edit func(*corev1.ResourceQuota)) change {
		return func(ctx context.Context, s *servers) error {
			return bubble.Edit(ctx, s.client.CoreV1().ResourceQuotas("here"), "pods", edit)
		}
	}
	noted := map[string]string{"note": "x"}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the limits of a quota change":   {quotaWith(func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=9") }), "pods"},
		"the API server charges a quota": {quotaWith(func(q *corev1.ResourceQuota) { q.Status.Used = list("pods=7 cpu=1") }), "pods"},
		"a quota has a note":             {quotaWith(func(q *corev1.ResourceQuota) { q.Annotations = noted }), ""},
		"a quota goes": {func(ctx context.Context, s *servers) error {
			return s.client.CoreV1().ResourceQuotas("here").Delete(ctx, "pods", metav1.DeleteOptions{})
		}, "pods"},
		"a pod comes": {func(ctx context.Context, s *servers) error {
			_, err := s.client.CoreV1().Pods("here").Create(ctx, pod("new"), metav1.CreateOptions{})
			return err
		}, "pods urgent"},
		"a pod goes": {func(ctx context.Context, s *servers) error {
			return s.client.CoreV1().Pods("here").Delete(ctx, "web", metav1.DeleteOptions{})
		}, "pods urgent"},
		"a pod ends":                           {podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "pods urgent"},
		"a pod requests more":                  {podWith(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("cpu=2") }), "pods urgent"},
		"a pod is of another class":            {podWith(func(p *corev1.Pod) { p.Spec.PriorityClassName = "urgent" }), "pods urgent"},
		"a pod is bound":                       {podWith(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), ""},
		"a pod is ready":                       {podWith(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }), ""},
		"a Service is to have a load balancer": {service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }), "services"},
		"a Service selects other pods":         {service(func(s *corev1.Service) { s.Spec.Selector = noted }), ""},
		"a claim asks for more":                {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = list("storage=2Gi") }), "storage"},
		"a claim is of another class":          {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") }), "storage"},
		"a claim is bound":                     {claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound }), ""},
		"a comet comes": {func(_ context.Context, s *servers) error {
			return s.comets.Tracker().Create(comets, comet("encke"), "here")
		}, "comets"},
		"a comet goes": {func(_ context.Context, s *servers) error { return s.comets.Tracker().Delete(comets, "here", "halley") }, "comets"},
		"a comet changes": {func(_ context.Context, s *servers) error {
			changed := comet("halley")
			changed.Annotations = noted
			return s.comets.Tracker().Update(comets, changed, "here")
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			elsewhere := countedQuota("elsewhere", "pods=5", "pods=1")
			elsewhere.Namespace = "there"
			disk := &corev1.PersistentVolumeClaim{ObjectMeta: meta("disk")}
			disk.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			s := newServers(t, pod("web", asks("cpu=1", "")), &corev1.Service{ObjectMeta: meta("web")}, disk, elsewhere,
				countedQuota("pods", "pods=5 cpu=9", "pods=1 cpu=1"), countedQuota("urgent", "pods=5", "pods=0", corev1.ResourceQuotaScopePriorityClass),
				countedQuota("services", "services.loadbalancers=5", "services.loadbalancers=0"),
				countedQuota("storage", "requests.storage=5Gi", "requests.storage=1Gi"), countedQuota("comets", "count/comets.far.example.com=5", "count/comets.far.example.com=1"))
			assert.Equal(t, test.want, bubble.Woken(t, s.client, s.starting(false), func(ctx context.Context) error { return test.change(ctx, s) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when bubbles begin
	going := pod("web", asks("cpu=1", ""))
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds, going.Finalizers = new(metav1.NewTime(midnight)), new(int64(180)), []string{"x"}
	for what, test := range map[string]struct {
		resync time.Duration
		limit  string
		pods   []runtime.Object
		want   string
	}{
		"a pod that was to go is overdue":     {0, "pods=5", []runtime.Object{going}, "limit"},
		"nothing is overdue":                  {0, "pods=5", []runtime.Object{pod("web")}, ""},
		"all quotas are looked at":            {5 * time.Minute, "pods=5", nil, "limit"},
		"what could not be listed has synced": {0, "count/comets.far.example.com=5", nil, "limit"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, append(test.pods, quota("limit", test.limit))...)
			s.resync = test.resync
			require.NoError(t, s.comets.Tracker().Delete(comets, "here", "halley"))
			s.comets.PrependReactor("list", "comets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if time.Since(midnight) < 3*time.Minute {
					return true, nil, errors.New("not now")
				}
				return true, &metav1.List{}, nil
			})
			assert.Equal(t, test.want, bubble.Woken(t, s.client, s.starting(true), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	type loop = *controller.Loop[cache.ObjectName]
	for what, test := range map[string]struct {
		waits   func(c *Controller) loop // which of the two
		answers error
	}{
		"no cache shows the status": {func(c *Controller) loop {
			c.own = controller.NewOwnWrites(bubble.Late{})
			return c.others
		}, nil},
		"no cache shows what others have done": {func(c *Controller) loop { return c.uncounted },
			apierrors.NewConflict(corev1.Resource("resourcequotas"), "limit", errors.New("it has changed"))},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, pod("web"), quota("limit", "pods=5"))
			bubble.Ahead(s.client)
			s.client.PrependReactor("update", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.answers != nil, nil, test.answers
			})
			sent := func() int { return len(s.client.Actions()) + len(s.comets.Actions()) }
			var last error
			keep := func(c *Controller) { bubble.Last(&test.waits(c).Sync, &last) }
			assert.LessOrEqual(t, bubble.Busy(t, s.client, s.starting(true, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
		})
	}
}
