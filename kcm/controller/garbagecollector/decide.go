package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan is what is to be done about one object.
type plan struct {
	// drop are the references that are to be taken out.
	drop []metav1.OwnerReference
	// unblock says that no owner is to wait for the object any more.
	unblock bool
	// deletion is how the object is to be deleted, and empty if it is not.
	deletion metav1.DeletionPropagation
	// release takes away the finalizer that keeps the object until its
	// dependents are gone.
	release bool
	// check are the dependents whose turn it is.
	check []key
}

// decide returns what is to be done about an object.
func decide(seen observed) plan {
	switch phaseOf(seen.object) {
	case collecting:
		return finish(seen)
	case orphaning, leaving:
		return plan{}
	}
	return judge(seen)
}

// judge decides about an object that is alive. It is deleted only when each of its
// owners, of which there is one at least, is gone or waits for its dependents to
// go, and no owner is left waiting for an object that is kept.
func judge(seen observed) plan {
	var drop []metav1.OwnerReference
	waits, kept := false, len(seen.owners) == 0
	for _, owner := range seen.owners {
		switch owner.is {
		case solid, unseen:
			kept = true
			continue
		case waiting:
			waits = true
		}
		drop = append(drop, owner.OwnerReference)
	}
	switch {
	case kept:
		return plan{drop: drop}
	case waits && len(seen.dependents) > 0:
		return plan{unblock: mayBeCircle(seen), deletion: metav1.DeletePropagationForeground}
	default:
		return plan{deletion: policyOf(seen.object)}
	}
}

// mayBeCircle tells whether the object asks an owner to wait for it, while one of
// its dependents waits for its own.
func mayBeCircle(seen observed) bool {
	asked := slices.ContainsFunc(seen.owners, func(o owner) bool { return o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion })
	return asked && slices.ContainsFunc(seen.dependents, func(d dependent) bool { return d.phase == collecting })
}

// policyOf returns what the object's finalizers say: Orphan for "orphan",
// Foreground for "foregroundDeletion", and Background if it has neither.
func policyOf(obj *object) metav1.DeletionPropagation {
	switch {
	case slices.Contains(obj.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(obj.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	default:
		return metav1.DeletePropagationBackground
	}
}

// finish decides about an object that is being deleted in the foreground: whether
// it is released, and if not, which of its dependents are to be looked at.
func finish(seen observed) plan {
	blocked := false
	var check []key
	for _, d := range seen.dependents {
		if !d.blocks {
			continue
		}
		blocked = true
		if d.phase != collecting {
			check = append(check, d.key)
		}
	}
	return plan{release: !blocked, check: check}
}
