package ttlafterfinished

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	mu     sync.Mutex
	// live is what the API server has where the cache is behind, or nil where it
	// has what the cache shows.
	live *batchv1.Job
	// asked are the deletions that were asked for, with the UIDs and the versions that
	// they have named and the policies.
	asked, uids, versions, policies []string
	// refuse is what the API server says to a request to get or to delete a Job.
	refuse func(verb, name string) error
}

// told runs a controller in a cluster while something happens there, and for six
// hours after that, and returns which deletions it has asked for, and when.
func told(t *testing.T, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string, string) error { return nil }}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		c.client.PrependReactor("get", "jobs", c.gets)
		c.client.PrependReactor("delete", "jobs", c.deletes)
		factory := informers.NewSharedInformerFactory(c.client, 0)
		controller := New(factory.Batch().V1().Jobs(), c.client)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { controller.Run(ctx, 2); close(ended) }()
		happens(c)
		time.Sleep(6 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	return cmp.Or(strings.Join(c.asked, "; "), "nothing")
}

func (c *cluster) gets(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse("get", action.(clienttesting.GetAction).GetName()); err != nil {
		return true, nil, err
	}
	return c.live != nil, c.live.DeepCopy(), nil
}

func (c *cluster) deletes(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	del := action.(clienttesting.DeleteActionImpl)
	c.asked = append(c.asked, fmt.Sprintf("%s delete %s/%s", time.Now().UTC().Format(time.TimeOnly), del.Namespace, del.Name))
	uid, version, policy := "whoever has the name", "whatever it says", "in no particular way"
	if p := del.DeleteOptions.Preconditions; p != nil && p.UID != nil {
		uid = string(*p.UID)
	}
	if p := del.DeleteOptions.Preconditions; p != nil && p.ResourceVersion != nil {
		version = *p.ResourceVersion
	}
	if p := del.DeleteOptions.PropagationPolicy; p != nil {
		policy = string(*p)
	}
	c.uids, c.versions, c.policies = append(c.uids, uid), append(c.versions, version), append(c.policies, policy)
	err := c.refuse("delete", del.Name)
	return err != nil, nil, err
}

// answers has the API server refuse requests from now on.
func (c *cluster) answers(refuse func(verb, name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// knowsBetter has the API server show a Job that the cache does not show.
func (c *cluster) knowsBetter(live *batchv1.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = live
}

// after waits until so much time has passed since midnight.
func (c *cluster) after(d time.Duration) { time.Sleep(time.Until(midnight.Add(d))) }

// has puts Jobs there, in place of those that have their names.
func (c *cluster) has(jobs ...*batchv1.Job) {
	for _, job := range jobs {
		api := c.client.BatchV1().Jobs(job.Namespace)
		_, err := api.Update(c.t.Context(), job, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(c.t.Context(), job, metav1.CreateOptions{})
		}
		assert.NoError(c.t, err)
	}
}

// job is one that runs, and is to be deleted 100 seconds after its end.
func job(edits ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "report", UID: "uid-1", ResourceVersion: "7"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(100))},
	}
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func named(name string) func(*batchv1.Job) { return func(job *batchv1.Job) { job.Name = name } }

func withUID(uid types.UID) func(*batchv1.Job) { return func(job *batchv1.Job) { job.UID = uid } }

func version(version string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.ResourceVersion = version }
}

func ttl(seconds int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.TTLSecondsAfterFinished = &seconds }
}

func withoutTTL(job *batchv1.Job) { job.Spec.TTLSecondsAfterFinished = nil }

func going(job *batchv1.Job) {
	job.DeletionTimestamp, job.Finalizers = new(metav1.NewTime(midnight)), []string{"foregroundDeletion"}
}

// with gives a Job a condition that came so long after midnight.
func with(kind batchv1.JobConditionType, status corev1.ConditionStatus, after time.Duration) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(midnight.Add(after))})
	}
}

func complete(after time.Duration) func(*batchv1.Job) {
	return with(batchv1.JobComplete, corev1.ConditionTrue, after)
}

// over is complete since midnight.
func over(job *batchv1.Job) { complete(0)(job) }
