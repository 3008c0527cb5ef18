package cronjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Schedules, zones and times are what people and other programs have written. What
// the loop makes of them is an event, or moments in their order.
func FuzzWhateverIsWrittenAsScheduleAndZoneMomentsComeOfIt(f *testing.F) {
	for _, schedule := range []string{"0 * * * *", "*/7 6,10 * * 1-5", "@every 90m", "@every 1ns", "@every -1h", "@every 2562047h", "@midnight", "0 0 31 2 *", "TZ=0", "CRON_TZ=UTC * * * * *", "TZ= 0 0 * * *", "60 * * * *", ""} {
		for _, zone := range []string{"", "UTC", "Asia/Tokyo", "America/New_York", "Local", "../etc", "Mars/Olympus"} {
			f.Add(schedule, zone, int64(0), int64(90*60), int64(-1))
		}
	}
	f.Fuzz(func(t *testing.T, text, zoneName string, last, now, deadline int64) {
		const century = 100 * 365 * 24 * 3600 // what a JSON time can say is more, and a clock that is off by more has other troubles
		last, now = last%century, now%century
		cj := testCronJob(schedule(text))
		cj.Spec.TimeZone = nil
		if zoneName != "" {
			cj.Spec.TimeZone = &zoneName
		}
		if last != 0 {
			cj.Status.LastScheduleTime = &metav1.Time{Time: cj.CreationTimestamp.Add(time.Duration(last) * time.Second)}
		}
		if deadline >= 0 {
			startingDeadline(deadline)(cj)
		}
		seen := observed{cronJob: cj, now: cj.CreationTimestamp.Add(time.Duration(now) * time.Second)}
		p := decide(seen)
		require.True(t, p.next.IsZero() || p.next.After(seen.now), "%q: the next moment %s is to come, and it is %s", text, p.next, seen.now)
		if p.start.IsZero() {
			return
		}
		require.False(t, p.start.After(seen.now), "%q: a Job is started for %s, and it is %s", text, p.start, seen.now)
		require.True(t, last == 0 || p.start.After(cj.Status.LastScheduleTime.Time), "%q: a Job is started for %s, and that of %s has run", text, p.start, cj.Status.LastScheduleTime)
		job, err := newJob(cj, p.start)
		require.NoError(t, err)
		cj.Status.LastScheduleTime = &metav1.Time{Time: p.start}
		require.True(t, isEntered(cj, job), "%q: the Job of %s", text, p.start)
	})
}
