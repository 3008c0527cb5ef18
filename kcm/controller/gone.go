package controller

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsGone tells whether a request for an object with a certain UID was refused
// because there is none: nothing has its name, or another object has. A request
// that was refused for any other reason, by a policy for example, may be granted
// later.
//
// The API server says NotFound, for a deletion or an update with that UID a Conflict
// about its precondition, and for a patch that the field metadata.uid is Invalid.
func IsGone(err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	if apierrors.IsConflict(err) {
		text := err.Error() // the API server looks twice, and has two texts
		return strings.Contains(text, "the UID in the precondition") || strings.Contains(text, "UID in precondition")
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
