package ttlafterfinished

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestAJobGoesWhenItsTimeAfterTheEndHasPassed(t *testing.T) {
	t.Parallel()
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for _, test := range []struct {
		behaviour, situation string
		there                *batchv1.Job
		want                 string
	}{
		{"a Job that is complete goes after its time", "it is complete since midnight, and its time is 100 s", job(over),
			"00:01:40 delete shop/report"},
		{"a Job that has failed goes after its time", "it has failed at midnight, and its time is 100 s", job(with(batchv1.JobFailed, yes, 0)),
			"00:01:40 delete shop/report"},
		{"a Job whose time is zero goes at once", "it is complete since midnight, and its time is 0 s", job(over, ttl(0)),
			"00:00:00 delete shop/report"},
		{"the time counts from the end of the Job", "it is complete for a minute, and its time is 100 s", job(complete(-time.Minute)),
			"00:00:40 delete shop/report"},
		{"a Job whose time has passed already goes at once", "it is complete for an hour, and its time is 100 s", job(complete(-time.Hour)),
			"00:00:00 delete shop/report"},
		{"a Job that has ended in the future waits for that too", "a clock that is fast says that it is complete since 01:00, and its time is 100 s",
			job(complete(time.Hour)), "01:01:40 delete shop/report"},
		{"a Job that does not want to go stays", "it is complete, and has no time", job(over, withoutTTL), "nothing"},
		{"a Job that runs stays", "it has no condition, and its time is 100 s", job(), "nothing"},
		{"a Job that once was complete runs", "its condition Complete is False, and its time is 100 s", job(with(batchv1.JobComplete, no, 0)), "nothing"},
		{"a Job that rests has not ended", "it is suspended, and its time is 100 s", job(with(batchv1.JobSuspended, yes, 0)), "nothing"},
		{"a Job that is about to fail has not ended", "its pods are being deleted, so it has the condition FailureTarget and not Failed yet",
			job(with(batchv1.JobFailureTarget, yes, 0)), "nothing"},
		{"of several conditions the one that says the end counts", "success was certain for an hour when it was complete, at midnight; its time is 100 s",
			job(with(batchv1.JobSuccessCriteriaMet, yes, -time.Hour), over), "00:01:40 delete shop/report"},
		{"a Job that does not say when it has ended stays", "its condition Complete has no time",
			job(over, func(job *batchv1.Job) { job.Status.Conditions[0].LastTransitionTime.Reset() }), "nothing"},
		{"a Job that is being deleted is left alone", "it is complete, and somebody has deleted it in the foreground", job(over, going), "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, func(c *cluster) { c.has(test.there) }), "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("each of several Jobs has a time of its own", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(job(over, named("b"), ttl(120)), job(over, named("a"), ttl(60)), job(named("c")))
		})
		assert.Equal(t, "00:01:00 delete shop/a; 00:02:00 delete shop/b", seen,
			"deletions that are asked for: a and b are complete since midnight, with 60 s and 120 s, and c runs")
	})
}

// Decisions read nothing but the Job and the time. Each change of it that leaves it a deadline, and that
// deadline, wake the loop: a table of other objects that do, as other loops have one, would be empty.
func TestAJobChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		first, then          *batchv1.Job
		want                 string
	}{
		{"a Job that ends later is noticed", "it runs, and is complete at 00:01", job(), job(complete(time.Minute)),
			"00:02:40 delete shop/report"},
		{"a time that is given after the end counts from the end", "it is complete since midnight, and at 00:01 somebody writes 100 s",
			job(over, withoutTTL), job(over), "00:01:40 delete shop/report"},
		{"a Job may be given more time", "it has 100 s since midnight, and at 00:01 somebody writes 1000", job(over), job(over, ttl(1000)),
			"00:16:40 delete shop/report"},
		{"a Job may be given less time", "it has 1000 s since midnight, and at 00:01 somebody writes 100", job(over, ttl(1000)), job(over),
			"00:01:40 delete shop/report"},
		{"a Job whose time is taken away stays", "it has 100 s since midnight, and at 00:01 somebody takes that out", job(over), job(over, withoutTTL),
			"nothing"},
		{"a Job that somebody else deletes meanwhile is left alone", "it has 100 s since midnight, and at 00:01 somebody deletes it in the foreground",
			job(over), job(over, going), "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.has(test.first)
				c.after(time.Minute)
				c.has(test.then)
			})
			assert.Equal(t, test.want, seen, "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("a Job that somebody has deleted is forgotten", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(job(over))
			c.after(time.Minute)
			assert.NoError(t, c.client.Tracker().Delete(batchv1.SchemeGroupVersion.WithResource("jobs"), "shop", "report"))
		})
		assert.Equal(t, "nothing", seen, "deletions that are asked for: a Job has 100 s since midnight, and at 00:01 it is gone")
	})
}

func TestTheCacheMayBeBehind(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		live                 *batchv1.Job
		want                 string
	}{
		{"more time that the cache does not show counts", "its time is 1000 s", job(over, ttl(1000)), "00:16:40 delete shop/report"},
		{"a time that was taken away counts before the cache shows it", "it has no time any more", job(over, withoutTTL), "nothing"},
		{"a Job that was started again under the name is not over", "another Job has its name, and runs", job(withUID("uid-2")), "nothing"},
		{"a Job that is being deleted is not deleted again", "somebody has deleted it in the foreground", job(over, going), "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.knowsBetter(test.live)
				c.has(job(over))
			})
			assert.Equal(t, test.want, seen, "deletions that are asked for: in the cache a Job is complete since midnight, and its time is 100 s, "+
				"but the API server knows better: %s", test.situation)
		})
	}
}

func TestADeletionMeansOneJobAndAllThatItOwns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		live                 *batchv1.Job
		seen                 func(c *cluster) []string
		want                 string
	}{
		{"a deletion names the UID that it means", "the Job is complete", nil, func(c *cluster) []string { return c.uids }, "uid-1"},
		{"the Job that was looked at last is the one to go", "the cache has uid-1, but another Job has the name by now, uid-2, and is complete as well",
			job(over, withUID("uid-2")), func(c *cluster) []string { return c.uids }, "uid-2"},
		{"a deletion names the version that was looked at last", "the cache has version 7, the API server version 8", job(over, version("8")),
			func(c *cluster) []string { return c.versions }, "8"},
		{"a Job is deleted in the foreground", "the Job is complete", nil, func(c *cluster) []string { return c.policies }, "Foreground"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			var c *cluster
			told(t, func(running *cluster) {
				c = running
				c.knowsBetter(test.live)
				c.has(job(over))
			})
			assert.Equal(t, test.want, strings.Join(test.seen(c), ", "), "what the API server is asked to delete, or how: %s", test.situation)
		})
	}
}

func TestARequestMayFail(t *testing.T) {
	t.Parallel()
	jobs, busy := batchv1.Resource("jobs"), errors.New("the API server is busy")
	for _, test := range []struct {
		behaviour, verb string
		refusal         error
	}{
		{"a request to get a Job that fails is made again", "get", apierrors.NewInternalError(busy)},
		{"a request to delete a Job that fails is made again", "delete", apierrors.NewInternalError(busy)},
		{"a deletion that is forbidden is tried again", "delete", apierrors.NewForbidden(jobs, "report", errors.New("not now"))},
		{"a deletion that a policy finds invalid is tried again", "delete", apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "report", nil)},
		{"a Job that has changed since the look is looked at again", "delete", apierrors.NewConflict(jobs, "report", errors.New("Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8"))},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			seen := told(t, func(c *cluster) {
				c.answers(func(asked, _ string) error {
					if asked != test.verb {
						return nil
					}
					if tries++; tries <= 3 {
						return test.refusal
					}
					return nil
				})
				c.has(job(over))
			})
			assert.Equal(t, 4, tries, "requests to %s the Job: to the first three the API server says: %v. It was asked: %s", test.verb, test.refusal, seen)
		})
	}
	for _, test := range []struct {
		behaviour, situation, verb string
		refusal                    error
		want                       string
	}{
		{"a Job that the API server does not have any more is no failure", "the API server has no such Job when it is looked at", "get",
			apierrors.NewNotFound(jobs, "report"), "nothing, after 1 looks"},
		{"a Job that goes before it is deleted is no failure", "the API server has no such Job when it is deleted", "delete",
			apierrors.NewNotFound(jobs, "report"), "00:01:40 delete shop/report, after 1 looks"},
		{"a Job that is another before it is deleted is no failure", "the API server says that the UID is another", "delete",
			apierrors.NewConflict(jobs, "report", errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2")), "00:01:40 delete shop/report, after 1 looks"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			looks := 0
			seen := told(t, func(c *cluster) {
				c.answers(func(asked, _ string) error {
					if asked == "get" {
						looks++
					}
					if asked == test.verb {
						return test.refusal
					}
					return nil
				})
				c.has(job(over))
			})
			assert.Equal(t, test.want, fmt.Sprintf("%s, after %d looks", seen, looks), "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("a Job that cannot be deleted keeps no other", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func(_, name string) error {
				if name == "report" {
					return nil
				}
				return apierrors.NewInternalError(busy)
			})
			c.has(job(over, named("a"), ttl(0)), job(over, named("b"), ttl(0)), job(over, named("c"), ttl(0)), job(over))
		})
		assert.Contains(t, seen, "00:01:40 delete shop/report",
			"deletions that are asked for: three Jobs whose deletion is refused since midnight, and there are two workers")
	})
}

// measured is the sum and the count of the histogram.
func measured(t *testing.T) (seconds float64, count uint64) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "ttl_after_finished_controller_job_deletion_duration_seconds" {
			histogram := family.GetMetric()[0].GetHistogram()
			return histogram.GetSampleSum(), histogram.GetSampleCount()
		}
	}
	return 0, 0
}

// late runs a controller that is started 3500 s after a Job's time had come,
// and returns what the histogram has more of after that, and which deletions
// were asked for.
func late(t *testing.T, refusals int) (seconds float64, count uint64, story string) {
	secondsBefore, countBefore := measured(t)
	story = told(t, func(c *cluster) {
		c.answers(func(verb, _ string) error {
			if verb == "delete" && refusals > 0 {
				refusals--
				return apierrors.NewInternalError(errors.New("the API server is busy"))
			}
			return nil
		})
		c.has(job(complete(-time.Hour)))
	})
	seconds, count = measured(t)
	return seconds - secondsBefore, count - countBefore, story
}

// It is not parallel: the metric is the process's.
func TestADeletionIsMeasured(t *testing.T) {
	t.Run("it is measured how late a deletion came", func(t *testing.T) {
		seconds, _, _ := late(t, 0)
		assert.InDelta(t, 3500, seconds, 10, "seconds in the histogram: a Job's time had come 3500 s before this manager was started")
	})
	t.Run("only a deletion that succeeds is measured", func(t *testing.T) {
		_, count, story := late(t, 2)
		assert.EqualValues(t, 1, count, "deletions that are measured: the API server refuses the first two. It was asked: %s", story)
	})
}
