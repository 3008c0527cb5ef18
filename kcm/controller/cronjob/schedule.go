package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// tooMany is how many missed moments are counted before the user is told.
const tooMany = 100

// errNever is of a schedule without a moment, such as February 31. The text is the
// original's, which a user may search for.
var errNever = errors.New("time difference between two schedules is less than 1 second")

// parse reads a CronJob's schedule in its time zone. Without a zone it is that of
// the process. The library panics at some texts.
func parse(cj *batchv1.CronJob) (schedule cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	text := cj.Spec.Schedule
	if cj.Spec.TimeZone != nil && !strings.Contains(text, "TZ") {
		text = fmt.Sprintf("TZ=%s %s", *cj.Spec.TimeZone, text)
	}
	return cron.ParseStandard(text)
}

// moments are those of a schedule around now.
type moments struct {
	// due is the last one that was missed, or zero if none was. Those before it
	// nobody makes up for.
	due time.Time
	// missed is how many were, counted up to one more than tooMany.
	missed int
	// next is the first one to come.
	next time.Time
}

// momentsOf returns the moments of a CronJob's schedule around now, or errNever if
// it has none. Those before a change of the schedule do not count.
func momentsOf(cj *batchv1.CronJob, schedule cron.Schedule, changed, now time.Time) (moments, error) {
	since := cj.CreationTimestamp.Time
	if last := cj.Status.LastScheduleTime; last != nil {
		since = last.Time
	}
	if changed.After(since) {
		since = changed
	}
	if schedule.Next(since).IsZero() {
		return moments{}, errNever
	}
	m := moments{next: schedule.Next(now)}
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		// It counts from since, not from midnight.
		m.next = last(schedule, since, now).Add(every.Delay)
	}
	if deadline := cj.Spec.StartingDeadlineSeconds; deadline != nil {
		// Each moment is looked at a bit late, so a second is the shortest deadline. An
		// interval goes on from one of its moments, and not from the deadline.
		if oldest := now.Add(-controller.Seconds(max(*deadline, 1))); oldest.After(since) {
			since = last(schedule, since, oldest)
		}
	}
	for at := schedule.Next(since); !at.After(now) && m.missed <= tooMany; at = schedule.Next(at) {
		m.due = at
		m.missed++
	}
	if m.missed > tooMany {
		m.due = last(schedule, m.due, now)
	}
	return m, nil
}

// last returns the last moment of the schedule that is not after now, given an
// earlier one. It asks the schedule a hundred times at most, however long the time
// in between is.
func last(schedule cron.Schedule, earlier, now time.Time) time.Time {
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return earlier.Add(max(now.Sub(earlier), 0).Truncate(every.Delay))
	}
	// The last moment comes after from, or is earlier, and not after to.
	from, to := earlier, now
	for to.Sub(from) > time.Second {
		if middle := from.Add(to.Sub(from) / 2); schedule.Next(middle).After(now) {
			to = middle
		} else {
			from = middle
		}
	}
	if at := schedule.Next(from); !at.After(now) {
		return at
	}
	return earlier
}
