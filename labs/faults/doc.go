// Package faults plays small workloads on a control plane with one fault each, and looks for what a controller manager
// then does wrong.
//
// A proxy stands between the manager and the API server. It counts what passes, and at one write, or at one event of
// one watch, something goes wrong once: the manager is killed and started anew, an answer is lost, a write is refused,
// an event comes late or not at all (see [Kinds]). Which write or event it is, is part of the run's name, as in
// rollout/lose/3, so that a run can be played again. What the loops do at the same time is up to them: the third write
// of another run may be another one.
//
// What is looked for: invariants that hold at every moment of the recorded history (see [Invariants]), the same end as
// without the fault, and that nothing is written any more after it. That nothing was found says that it did not happen
// in the runs that were played, and no more.
//
// Where users act at the same moment as a loop, as in the live view, some bounds cannot hold: they do not count then
// for what is disturbed, which is said beside each. After the API server was killed none counts, for some changes may
// have been missed, but the end does.
//
// The proxy shows a manager one namespace as if there were no other, and of what is in no namespace what has a label
// that says so. So many managers work side by side on one control plane and do not disturb each other.
package faults
