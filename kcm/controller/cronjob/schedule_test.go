package cronjob

import (
	"fmt"
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func instant(text string) time.Time {
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		panic(err)
	}
	return at.UTC()
}

// testCronJob is one that was created at noon and runs at each full hour, UTC.
func testCronJob(edits ...func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "uid-nightly", CreationTimestamp: metav1.NewTime(instant("2026-03-02 12:00:00"))},
		Spec:       batchv1.CronJobSpec{Schedule: "0 * * * *", TimeZone: new("UTC")},
	}
	for _, edit := range edits {
		edit(cj)
	}
	return cj
}

func schedule(text string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.Schedule = text }
}

func zone(name string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &name }
}

func lastRun(text string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = new(metav1.NewTime(instant(text))) }
}

// changedAnnotation is where tests of moments say when the schedule was changed.
const changedAnnotation = "changed"

func changed(text string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { metav1.SetMetaDataAnnotation(&cj.ObjectMeta, changedAnnotation, text) }
}

func changeOf(cj *batchv1.CronJob) time.Time {
	if text := cj.Annotations[changedAnnotation]; text != "" {
		return instant(text)
	}
	return time.Time{}
}

func startingDeadline(seconds int64) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
}

func say(m moments) string {
	due := "nothing"
	if !m.due.IsZero() {
		due = m.due.UTC().Format(time.DateTime)
	}
	return fmt.Sprintf("due %s, missed %d, next %s", due, m.missed, m.next.UTC().Format(time.DateTime))
}

func TestMoments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		cronJob              *batchv1.CronJob
		now, want            string
	}{
		{"before its first moment nothing is due", "created at noon, and it is 12:59:59", testCronJob(), "2026-03-02 12:59:59", "due nothing, missed 0, next 2026-03-02 13:00:00"},
		{"at the moment it is due", "it is 13:00:00", testCronJob(), "2026-03-02 13:00:00", "due 2026-03-02 13:00:00, missed 1, next 2026-03-02 14:00:00"},
		{"what has run is not due", "it is 13:30, and the Job of 13:00 was created", testCronJob(lastRun("2026-03-02 13:00:00")), "2026-03-02 13:30:00", "due nothing, missed 0, next 2026-03-02 14:00:00"},
		{"of several that were missed the last is due", "nobody was there from noon to 15:30", testCronJob(), "2026-03-02 15:30:00", "due 2026-03-02 15:00:00, missed 3, next 2026-03-02 16:00:00"},
		{"what is older than the deadline is not due", "15:00 was missed, it is 15:30, and there were 20 minutes", testCronJob(startingDeadline(1200)), "2026-03-02 15:30:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"what is within the deadline is due", "15:00 was missed, it is 15:30, and there are 40 minutes", testCronJob(startingDeadline(2400)), "2026-03-02 15:30:00", "due 2026-03-02 15:00:00, missed 1, next 2026-03-02 16:00:00"},
		{"what is exactly as old as the deadline is not due", "15:00 was missed, it is 15:30, and there are 30 minutes", testCronJob(startingDeadline(1800)), "2026-03-02 15:30:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"what is a nanosecond younger than the deadline is due", "15:00 was missed, it is a nanosecond before 15:30, and there are 30 minutes", testCronJob(startingDeadline(1800)), "2026-03-02 15:29:59.999999999", "due 2026-03-02 15:00:00, missed 1, next 2026-03-02 16:00:00"},
		{"with a deadline of ages nothing is too old", "all since noon were missed, it is 15:30, and there are as many seconds as there are", testCronJob(startingDeadline(math.MaxInt64)), "2026-03-02 15:30:00", "due 2026-03-02 15:00:00, missed 3, next 2026-03-02 16:00:00"},
		{"a deadline does not bring back what has run", "15:00 has run, it is 15:30, and there are 40 minutes", testCronJob(lastRun("2026-03-02 15:00:00"), startingDeadline(2400)), "2026-03-02 15:30:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"a hundred are counted", "every minute, 100 minutes after noon", testCronJob(schedule("* * * * *")), "2026-03-02 13:40:30", "due 2026-03-02 13:40:00, missed 100, next 2026-03-02 13:41:00"},
		{"more than a hundred are too many to count, and the last is due", "every minute, ten years later", testCronJob(schedule("* * * * *")), "2036-03-02 12:00:30", "due 2036-03-02 12:00:00, missed 101, next 2036-03-02 12:01:00"},
		{"after years it is still the last that is due", "on weekdays at 6 and 10, and it is a Sunday ten years later", testCronJob(schedule("0 6,10 * * 1-5")), "2036-03-02 12:00:00", "due 2036-02-29 10:00:00, missed 101, next 2036-03-03 06:00:00"},
		{"time is that of its zone", "at 3 in the morning in Tokyo", testCronJob(schedule("0 3 * * *"), zone("Asia/Tokyo")), "2026-03-02 18:30:00", "due 2026-03-02 18:00:00, missed 1, next 2026-03-03 18:00:00"},
		{"an hour that is left out in spring has no moment", "at 2:30 in New York, where on March 8 it is 3:00 after 1:59", testCronJob(schedule("30 2 * * *"), zone("America/New_York"), lastRun("2026-03-07 07:30:00")), "2026-03-08 12:00:00", "due nothing, missed 0, next 2026-03-09 06:30:00"},
		{"after the clock was set back nothing runs a second time", "the Job of 15:00 was created, and it is 14:10", testCronJob(lastRun("2026-03-02 15:00:00")), "2026-03-02 14:10:00", "due nothing, missed 0, next 2026-03-02 15:00:00"},
		{"after the clock was set back an interval goes on from the last Job", "the Job of 15:00 was created, and it is 12:10", testCronJob(schedule("@every 1h"), lastRun("2026-03-02 15:00:00")), "2026-03-02 12:10:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"a moment before the schedule was changed is not due", "13:00 has run, and at 15:30 it was changed to each full hour", testCronJob(lastRun("2026-03-02 13:00:00"), changed("2026-03-02 15:30:00")), "2026-03-02 15:40:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"the moment at which it was changed is not due", "13:00 has run, and at 15:00 it was changed to each full hour", testCronJob(lastRun("2026-03-02 13:00:00"), changed("2026-03-02 15:00:00")), "2026-03-02 15:00:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"a moment after the change is due", "13:00 has run, at 14:30 it was changed to each full hour, and it is 15:40", testCronJob(lastRun("2026-03-02 13:00:00"), changed("2026-03-02 14:30:00")), "2026-03-02 15:40:00", "due 2026-03-02 15:00:00, missed 1, next 2026-03-02 16:00:00"},
		{"a change does not bring back what has run", "15:00 has run, and it was changed at 13:30", testCronJob(lastRun("2026-03-02 15:00:00"), changed("2026-03-02 13:30:00")), "2026-03-02 15:40:00", "due nothing, missed 0, next 2026-03-02 16:00:00"},
		{"an interval counts from the change", "noon has run, and at 12:20 it was changed to every 90 minutes", testCronJob(schedule("@every 90m"), lastRun("2026-03-02 12:00:00"), changed("2026-03-02 12:20:00")), "2026-03-02 14:00:00", "due 2026-03-02 13:50:00, missed 1, next 2026-03-02 15:20:00"},
		{"an interval counts from the last moment", "every 90 minutes, since noon", testCronJob(schedule("@every 90m")), "2026-03-02 13:45:00", "due 2026-03-02 13:30:00, missed 1, next 2026-03-02 15:00:00"},
		{"an interval that is longer than the deadline comes due", "every hour, since noon, and there are 45 minutes", testCronJob(schedule("@every 1h"), startingDeadline(2700)), "2026-03-02 14:10:00", "due 2026-03-02 14:00:00, missed 1, next 2026-03-02 15:00:00"},
		{"a moment of an interval may be too old", "every hour, since noon, and there are 45 minutes", testCronJob(schedule("@every 1h"), startingDeadline(2700)), "2026-03-02 14:45:00", "due nothing, missed 0, next 2026-03-02 15:00:00"},
		{"of an interval that is shorter than the deadline those within it are missed", "every 20 minutes, since noon, and there are 45 minutes", testCronJob(schedule("@every 20m"), startingDeadline(2700)), "2026-03-02 14:10:00", "due 2026-03-02 14:00:00, missed 2, next 2026-03-02 14:20:00"},
		{"what is looked at in time is due even if nothing may be late", "it is a tenth of a second after 13:00, and there are 0 seconds", testCronJob(startingDeadline(0)), "2026-03-02 13:00:00.1", "due 2026-03-02 13:00:00, missed 1, next 2026-03-02 14:00:00"},
		{"and after a second it is too late", "it is a second after 13:00, and there are 0 seconds", testCronJob(startingDeadline(0)), "2026-03-02 13:00:01", "due nothing, missed 0, next 2026-03-02 14:00:00"},
		{"an interval is kept over years", "every 7 minutes, and it is a day later", testCronJob(schedule("@every 7m")), "2026-03-03 12:00:00", "due 2026-03-03 11:55:00, missed 101, next 2026-03-03 12:02:00"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			schedule, err := parse(test.cronJob)
			require.NoError(t, err)
			m, err := momentsOf(test.cronJob, schedule, changeOf(test.cronJob), instant(test.now))
			require.NoError(t, err)
			assert.Equal(t, test.want, say(m), "the moments: %s", test.situation)
		})
	}
	t.Run("a day that never comes is an error", func(t *testing.T) {
		t.Parallel()
		cj := testCronJob(schedule("59 23 31 2 *"))
		parsed, err := parse(cj)
		require.NoError(t, err)
		_, err = momentsOf(cj, parsed, time.Time{}, instant("2026-03-02 12:00:00"))
		assert.ErrorIs(t, err, errNever, "February 31")
	})
	t.Run("what the library panics at is an error", func(t *testing.T) {
		t.Parallel()
		_, err := parse(testCronJob(schedule("TZ=0")))
		assert.Error(t, err)
	})
}

// asked counts how often a schedule is asked for a moment.
type asked struct {
	cron.Schedule
	times int
}

func (a *asked) Next(t time.Time) time.Time {
	a.times++
	return a.Schedule.Next(t)
}

func TestTheLastMomentIsFoundFast(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		cronJob              *batchv1.CronJob
		earlier, now, want   string
	}{
		{"a moment that has just come is the last", "each full hour, and it is 15:00:00", testCronJob(), "2026-03-02 13:00:00", "2026-03-02 15:00:00", "2026-03-02 15:00:00"},
		{"a moment that has not come yet is not", "each full hour, and it is a nanosecond before 15:00", testCronJob(), "2026-03-02 13:00:00", "2026-03-02 14:59:59.999999999", "2026-03-02 14:00:00"},
		{"if none has come since, it is the earlier one", "each full hour, and it is 13:59", testCronJob(), "2026-03-02 13:00:00", "2026-03-02 13:59:00", "2026-03-02 13:00:00"},
		{"of an interval, too, also if now is long before it", "every hour since 15:00, and it is 12:10, since the clock was set back", testCronJob(schedule("@every 1h")), "2026-03-02 15:00:00", "2026-03-02 12:10:00", "2026-03-02 15:00:00"},
		{"moments need not come regularly", "on weekdays at 6 and 10, and it is Sunday", testCronJob(schedule("0 6,10 * * 1-5")), "2026-03-02 06:00:00", "2026-03-08 12:00:00", "2026-03-06 10:00:00"},
		{"the last may be long ago", "on February 29, and it is a year and a half after the last one", testCronJob(schedule("0 6 29 2 *")), "2004-02-29 06:00:00", "2025-09-01 12:00:00", "2024-02-29 06:00:00"},
		{"an interval counts from the earlier moment", "every 7 minutes since 12:01", testCronJob(schedule("@every 7m")), "2026-03-02 12:01:00", "2026-03-02 13:00:00", "2026-03-02 12:57:00"},
		{"of an interval the end may be now", "every 7 minutes since 12:01, and it is 12:57", testCronJob(schedule("@every 7m")), "2026-03-02 12:01:00", "2026-03-02 12:57:00", "2026-03-02 12:57:00"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			parsed, err := parse(test.cronJob)
			require.NoError(t, err)
			at := last(parsed, instant(test.earlier), instant(test.now))
			assert.Equal(t, test.want, at.UTC().Format(time.DateTime), "the last moment that is not after now: %s", test.situation)
		})
	}
	t.Run("ten years take a hundred questions at most", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"* * * * *", "0 6,10 * * 1-5", "30 3 1 * *"} {
			cj := testCronJob(schedule(text))
			parsed, err := parse(cj)
			require.NoError(t, err)
			counted := &asked{Schedule: parsed}
			last(counted, parsed.Next(cj.CreationTimestamp.Time), instant("2036-03-02 12:00:30"))
			assert.LessOrEqual(t, counted.times, 100, "how often Next was called for the last moment of ten years of %q", text)
		}
	})
	t.Run("it is the one that is found one after the other", func(t *testing.T) {
		t.Parallel()
		texts := []string{"* * * * *", "*/7 * * * *", "0 6,10 * * 1-5", "30 3 1 * *", "15 */5 * * 0"}
		rapid.Check(t, func(t *rapid.T) {
			cj := testCronJob(schedule(rapid.SampledFrom(texts).Draw(t, "schedule")))
			parsed, err := parse(cj)
			require.NoError(t, err)
			earlier := parsed.Next(cj.CreationTimestamp.Time)
			now := earlier.Add(time.Duration(rapid.Int64Range(0, 40*24*3600).Draw(t, "seconds")) * time.Second)
			slow := earlier
			for at := earlier; !at.After(now); at = parsed.Next(at) {
				slow = at
			}
			if found := last(parsed, earlier, now); !found.Equal(slow) {
				t.Fatalf("the last moment of %q since %s, at %s: %s, and one after the other it is %s", cj.Spec.Schedule, earlier, now, found, slow)
			}
		})
	})
}
