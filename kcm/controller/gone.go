package controller

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsGone tells whether a request for an object, or for one with a certain UID, was
// refused because there is none: nothing has its name, or another object has. A
// request that was refused for any other reason, by a policy for example, may be
// granted later.
//
// The API server says NotFound, for a deletion or an update with that UID a Conflict
// about its precondition, and for a patch that the field metadata.uid is Invalid. A
// NotFound that names no object, but a resource or a version that is not served, does
// not count, nor does one that a client has made of an answer in plain text.
func IsGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	switch {
	case apierrors.IsNotFound(err):
		return details.Name != "" && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	case HasChanged(err):
		text := withoutName(status.Status()) // the API server looks twice, and has two texts
		return strings.Contains(text, "the UID in the precondition") || strings.Contains(text, "UID in precondition")
	}
	return apierrors.IsInvalid(err) &&
		slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// HasChanged tells whether a write was refused because the API server has its object in
// another version, or under another UID, than the write was made for. So what it was
// made from, the cache of a loop for example, is behind.
//
// A webhook may call its refusal a Conflict, too. That says nothing about the object, and
// is a failure as any other refusal is. The API server writes who has refused.
func HasChanged(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsConflict(err) && errors.As(err, &status) &&
		!strings.HasPrefix(status.Status().Message, "admission webhook ")
}

// StaleIfChanged returns an error that wraps [ErrStaleCache] for a write that was refused
// because its object has changed, and any other error as it is.
func StaleIfChanged(err error) error {
	if HasChanged(err) {
		return fmt.Errorf("%w: %v", ErrStaleCache, err)
	}
	return err
}

// withoutName returns the text of a status without the name of its object. A user may
// have chosen one that reads like an answer: a CertificateSigningRequest may be called
// "x UID in precondition". The API server writes the name in quotes, and once more at
// the end of the object's key in etcd.
func withoutName(status metav1.Status) string {
	name := status.Details.Name
	return strings.NewReplacer(strconv.Quote(name), "", "/"+name+",", "").Replace(status.Message)
}
