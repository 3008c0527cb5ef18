package cronjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// wrote is that somebody has set fields of the spec, and wrote last at that time.
func wrote(who, at, fields string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.ManagedFields = append(cj.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: who, Time: new(metav1.NewTime(instant(at))),
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":` + fields + `}`)},
		})
	}
}

// atCreation is what the API server writes down of a CronJob that is created.
var atCreation = wrote("kubectl-create", "2026-03-02 12:00:00", `{"f:schedule":{},"f:timeZone":{},"f:jobTemplate":{}}`)

func TestWhenAScheduleWasChanged(t *testing.T) {
	t.Parallel()
	zoneless := func(cj *batchv1.CronJob) { cj.Spec.TimeZone = nil }
	another := func(cj *batchv1.CronJob) { cj.UID = "another" }
	patched := wrote("kubectl-patch", "2026-03-02 15:20:00", `{"f:schedule":{}}`)
	labels := `{"f:jobTemplate":{"f:metadata":{"f:labels":{"f:schedule":{}}}}}`
	for _, test := range []struct {
		behaviour, situation string
		before               *batchv1.CronJob // as it was seen at 14:00, or nil
		now                  *batchv1.CronJob
		want                 string
	}{
		{"one that was never changed was not changed", "a process begins", nil, testCronJob(atCreation), "never"},
		{"a process that begins asks who has set the schedule", "it was set by a patch at 15:20", nil, testCronJob(atCreation, patched), "15:20"},
		{"or the zone", "the zone was set by a patch at 15:25", nil, testCronJob(atCreation, wrote("kubectl-patch", "2026-03-02 15:25:00", `{"f:timeZone":{}}`)), "15:25"},
		{"the latest counts", "first the schedule was patched, then the zone", nil, testCronJob(atCreation, patched, wrote("kubectl-edit", "2026-03-02 15:25:00", `{"f:timeZone":{}}`)), "15:25"},
		{"other fields are no schedule", "somebody else has suspended it", nil, testCronJob(atCreation, wrote("kubectl-patch", "2026-03-02 15:20:00", `{"f:suspend":{}}`)), "never"},
		{"a label is no schedule", "the template has a label called schedule", nil, testCronJob(atCreation, wrote("kubectl-patch", "2026-03-02 15:20:00", labels)), "never"},
		{"a change before the last Job is over", "15:20 was the change, and the last Job is for 15:25", nil, testCronJob(schedule("25 * * * *"), atCreation, patched, lastRun("2026-03-02 15:25:00")), "never"},
		{"a last Job that lies before the creation tells nothing", "it was restored with the status that it had", nil, testCronJob(atCreation, lastRun("2026-01-01 00:00:00")), "never"},
		{"a last Job for no moment tells of a change", "nobody has written down who set what, and the last Job is for 13:30", nil, testCronJob(lastRun("2026-03-02 13:30:00")), "15:30"},
		{"so does that of a zone that was taken out", "the last Job is for 3:00 in Tokyo", nil, testCronJob(schedule("0 3 * * *"), zoneless, atCreation, lastRun("2026-03-02 18:00:00")), "15:30"},
		{"a last Job for a moment tells of none", "nobody has written down who set what, and the last Job is for 13:00", nil, testCronJob(lastRun("2026-03-02 13:00:00")), "never"},
		{"an interval may begin anywhere", "the last Job is for 13:07", nil, testCronJob(schedule("@every 20m"), lastRun("2026-03-02 13:07:00")), "never"},
		{"what cannot be read has no moment to fit", "the schedule is a word", nil, testCronJob(schedule("daily"), lastRun("2026-03-02 13:07:00")), "never"},
		{"entries that say nothing are passed over", "one has no time, one has no fields, one is no JSON", nil, testCronJob(func(cj *batchv1.CronJob) {
			cj.ManagedFields = []metav1.ManagedFieldsEntry{{}, {Time: &metav1.Time{}}, {Time: &metav1.Time{}, FieldsV1: &metav1.FieldsV1{Raw: []byte("{")}}}
		}), "never"},
		{"a process sees what changes", "another schedule, set at 15:20", testCronJob(atCreation), testCronJob(schedule("20 * * * *"), patched), "15:20"},
		{"without managed fields it is now", "another schedule", testCronJob(), testCronJob(schedule("20 * * * *")), "15:30"},
		{"a zone that is taken out leaves no trace, so it is now", "it was in Tokyo", testCronJob(zone("Asia/Tokyo"), atCreation), testCronJob(zoneless, atCreation), "15:30"},
		{"a process sees that it was another field", "the same schedule, and its writer has written at 15:20", testCronJob(atCreation), testCronJob(wrote("kubectl-create", "2026-03-02 15:20:00", `{"f:schedule":{},"f:suspend":{}}`)), "never"},
		{"another CronJob of the name has a schedule of its own", "it was created with another one", testCronJob(schedule("20 * * * *"), atCreation), testCronJob(another, atCreation), "never"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			var before sighting
			if test.before != nil {
				before = look(before, test.before, instant("2026-03-02 14:00:00"))
			}
			seen := "never"
			if s := look(before, test.now, instant("2026-03-02 15:30:00").Add(time.Millisecond)); !s.since.IsZero() {
				seen = s.since.UTC().Format("15:04")
			}
			assert.Equal(t, test.want, seen, "when the schedule was changed, it is 15:30: %s", test.situation)
		})
	}
	t.Run("a change is remembered", func(t *testing.T) {
		t.Parallel()
		seen := look(sighting{}, testCronJob(), instant("2026-03-02 14:00:00"))
		for _, minute := range []string{"10", "20", "30"} {
			seen = look(seen, testCronJob(schedule("20 * * * *")), instant("2026-03-02 14:"+minute+":00"))
		}
		assert.Equal(t, instant("2026-03-02 14:10:00"), seen.since, "when it was changed: at 14:10 it is seen for the first time, and then again and again")
	})
}

// What wakes the loop after a change does not matter, nor does a restart.
func TestNoJobIsForAMomentBeforeTheScheduleWasChanged(t *testing.T) {
	t.Parallel()
	edit := func(t *testing.T, client *fake.Clientset, edits ...func(*batchv1.CronJob)) {
		cj, err := client.BatchV1().CronJobs("shop").Get(t.Context(), "nightly", metav1.GetOptions{})
		assert.NoError(t, err)
		for _, edit := range edits {
			edit(cj)
		}
		_, err = client.BatchV1().CronJobs("shop").Update(t.Context(), cj, metav1.UpdateOptions{})
		assert.NoError(t, err)
	}
	labelled := func(cj *batchv1.CronJob) { cj.Labels = map[string]string{"a": "label"} }
	for _, test := range []struct {
		behaviour string
		to        []func(*batchv1.CronJob)
		want      string
	}{
		{"another schedule", []func(*batchv1.CronJob){schedule("50 * * * *")}, "01:00:00 01:50:00"},
		{"a schedule that the last Job fits, too", []func(*batchv1.CronJob){schedule("0,20 * * * *")}, "01:00:00 02:00:00"},
		{"another zone", []func(*batchv1.CronJob){zone("Asia/Kolkata")}, "01:00:00 01:30:00"},
		{"an interval that is over", []func(*batchv1.CronJob){schedule("@every 20m")}, "01:00:00 01:45:00 02:05:00"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			created, _ := run(t, hourly(), 0, func(client *fake.Clientset) {
				time.Sleep(85 * time.Minute)
				edit(t, client, test.to...)
				time.Sleep(time.Minute)
				edit(t, client, labelled)
				time.Sleep(44 * time.Minute)
			})
			assert.Equal(t, test.want, created, "when Jobs are created: it was hourly, changes at 01:25, and gets a label at 01:26")
		})
	}
	t.Run("while it is suspended", func(t *testing.T) {
		t.Parallel()
		created, _ := run(t, hourly(suspended), 0, func(client *fake.Clientset) {
			time.Sleep(3*time.Hour + 30*time.Minute)
			edit(t, client, schedule("20 * * * *"))
			time.Sleep(time.Minute)
			edit(t, client, func(cj *batchv1.CronJob) { cj.Spec.Suspend = nil })
			time.Sleep(time.Hour)
		})
		assert.Equal(t, "04:20:00", created, "when Jobs are created: its schedule changes at 03:30, and it is let go on at 03:31")
	})
	t.Run("what was missed of the schedule that it has is made up for", func(t *testing.T) {
		t.Parallel()
		created, _ := run(t, hourly(suspended), 0, func(client *fake.Clientset) {
			time.Sleep(30 * time.Minute)
			edit(t, client, schedule("20 * * * *"))
			time.Sleep(3 * time.Hour)
			edit(t, client, func(cj *batchv1.CronJob) { cj.Spec.Suspend = nil })
			time.Sleep(time.Minute)
		})
		assert.Equal(t, "03:30:00", created, "when Jobs are created: its schedule changes at 00:30, and it is let go on at 03:30")
	})
}
