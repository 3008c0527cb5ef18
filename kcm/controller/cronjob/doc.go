// Package cronjob creates a Job whenever the schedule of a CronJob says so.
//
// What it guarantees: for each moment of the schedule at most one Job is created,
// because the moment is in the Job's name, and none for one before the schedule was
// changed. A moment at which no manager was running is made up for, if it is the
// last one that was missed and is not older than startingDeadlineSeconds.
//
// What it does not: that a Job is created at that very moment, or that one is for
// each moment. And two Jobs may overlap under the policy Forbid, if somebody
// creates one of them by hand.
package cronjob
