package cronjob

import (
	"encoding/json"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// sighting is what a sync has seen of a CronJob's schedule.
type sighting struct {
	uid            types.UID
	schedule, zone string
	// written is when those who have set the schedule and its zone last wrote.
	written time.Time
	// since is when the schedule was changed after the last Job, or zero.
	since time.Time
}

// look returns what is to be seen of a CronJob's schedule, given what was before.
//
// A process sees the schedule change. One that has just begun asks managedFields:
// their time is not before the change, and outlives restarts and refusals. If it is
// that of another field, a moment that was missed is not made up for, which is
// better than a Job at a time that nobody has asked for. Where they say nothing, as
// of a zone that was taken out, the last Job tells: it is for no moment any more.
func look(before sighting, cj *batchv1.CronJob, now time.Time) sighting {
	s := sighting{cj.UID, cj.Spec.Schedule, ptr.Deref(cj.Spec.TimeZone, ""), lastWritten(cj), before.since}
	changed := s.schedule != before.schedule || s.zone != before.zone
	if before.uid != cj.UID {
		s.since, before.written = time.Time{}, cj.CreationTimestamp.Time
		if cj.CreationTimestamp.Before(cj.Status.LastScheduleTime) {
			before.written = cj.Status.LastScheduleTime.Time
		}
		changed = s.written.After(before.written) || !fits(cj)
	}
	if changed && s.written.After(before.written) {
		s.since = s.written
	} else if changed {
		s.since = now.Truncate(time.Second)
	}
	return s
}

// writers keeps when which fields were written.
var writers = controller.KeepOf(func(kept, whole *batchv1.CronJob) { kept.ManagedFields = whole.ManagedFields })

// lastWritten returns when managers of the fields schedule and timeZone last wrote
// any of their fields. To take a field out is no such write.
func lastWritten(cj *batchv1.CronJob) (at time.Time) {
	for _, entry := range cj.ManagedFields {
		var set map[string]map[string]any
		if entry.FieldsV1 == nil || entry.Time == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		if (set["f:spec"]["f:schedule"] != nil || set["f:spec"]["f:timeZone"] != nil) && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// fits tells whether the last Job was for a moment of the schedule, unless that
// cannot be told: an interval may begin at any.
func fits(cj *batchv1.CronJob) bool {
	last := cj.Status.LastScheduleTime
	schedule, _ := parse(cj)
	spec, ok := schedule.(*cron.SpecSchedule)
	return last == nil || !ok || spec.Next(last.Add(-time.Second)).Equal(last.Time)
}
