package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
)

func TestOnlyAnAnswerAboutTheUIDSaysThatAnObjectIsGone(t *testing.T) {
	t.Parallel()
	pods, kind := corev1.Resource("pods"), corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	invalid := func(fields ...string) error {
		var all field.ErrorList
		for _, name := range fields {
			all = append(all, field.Invalid(field.NewPath("metadata").Child(name), "", "field is immutable"))
		}
		return apierrors.NewInvalid(kind, "web", all)
	}
	for answer, test := range map[string]struct {
		err  error
		gone bool
	}{
		"it has been done":                                {nil, false},
		"there is nothing of that name":                   {apierrors.NewNotFound(pods, "web"), true},
		"the same, in other words":                        {fmt.Errorf("delete pod: %w", apierrors.NewNotFound(pods, "web")), true},
		"the version is not served any more":              {apierrors.NewGenericServerResponse(404, "get", pods, "web", "404 page not found", 0, true), false},
		"the resource is not served any more":             {apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "404: Page Not Found", 0, false), false},
		"a deletion was meant for another":                {apierrors.NewConflict(pods, "web", errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2")), true},
		"that was found out at once":                      {apierrors.NewConflict(pods, "web", errors.New("the UID in the precondition (1) does not match the UID in record (2). The object might have been deleted and then recreated")), true},
		"the version is another, as is found out at once": {apierrors.NewConflict(pods, "web", errors.New("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2). The object might have been modified")), false},
		"a deletion was meant for another version":        {apierrors.NewConflict(pods, "web", errors.New("Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 2")), false},
		"an update was made from an older version":        {apierrors.NewConflict(pods, "web", errors.New("the object has been modified")), false},
		"a patch was meant for another":                   {invalid("uid"), true},
		"and it would also have changed what stays":       {invalid("name", "uid"), true},
		"a patch changes what stays":                      {invalid("name"), false},
		"a policy does not want it":                       {apierrors.NewInvalid(kind, "web", nil), false},
		"the caller may not do it":                        {apierrors.NewForbidden(pods, "web", errors.New("not now")), false},
		"a webhook denies it, with 404":                   {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: "admission webhook denied the request"}}, false},
		"a webhook is away":                               {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.gone, IsGone(test.err), "%v", test.err)
		})
	}
}

func TestOnlyTheAPIServerItselfSaysThatAnObjectHasChanged(t *testing.T) {
	t.Parallel()
	requests := certificatesv1.Resource("certificatesigningrequests")
	conflict := func(text string) error { return apierrors.NewConflict(requests, "a", errors.New(text)) }
	webhook := func(reason metav1.StatusReason, code int32) error {
		return webhookerrors.ToStatusErr("policy.example.com", &metav1.Status{Reason: reason, Code: code, Details: &metav1.StatusDetails{Name: "a"},
			Message: "the object has been modified; UID in precondition"})
	}
	for answer, test := range map[string]struct {
		err     error
		changed bool
	}{
		"it has been done":                     {nil, false},
		"an update was made of another":        {conflict("the object has been modified; please apply your changes to the latest version and try again"), true},
		"the same, in other words":             {fmt.Errorf("write: %w", conflict("the object has been modified")), true},
		"a deletion was meant for another":     {conflict("Precondition failed: UID in precondition: 1, UID in object meta: 2"), true},
		"it was meant for another version":     {conflict("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2)"), true},
		"a patch was meant for what is gone":   {conflict("uid mismatch: the provided object specified uid 1, and no existing object was found"), true},
		"there is nothing of that name":        {apierrors.NewNotFound(requests, "a"), false},
		"there is one already":                 {apierrors.NewAlreadyExists(requests, "a"), false},
		"a webhook calls its refusal conflict": {webhook(metav1.StatusReasonConflict, 409), false},
		"a webhook gives the number alone":     {webhook("", 409), false},
		"a webhook denies it":                  {webhook(metav1.StatusReasonForbidden, 403), false},
		"there is no answer":                   {errors.New("connection refused"), false},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.changed, HasChanged(test.err), "%v", test.err)
			if !test.changed && apierrors.IsConflict(test.err) {
				assert.False(t, IsGone(test.err), "nor is it gone: %v", test.err)
			}
		})
	}
}

func TestWhetherAnObjectIsGoneDoesNotDependOnItsName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"web", "e", "in", "UID", "UID in precondition", "x the UID in the precondition",
		`Precondition failed: UID in precondition: 1, UID in object meta: 2`, `"UID in precondition`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := certificatesv1.Resource("certificatesigningrequests")
			atStorage := func(failed string) error {
				return apierrors.NewConflict(requests, name, fmt.Errorf("StorageError: invalid object, Code: 4, "+
					"Key: /registry/certificatesigningrequests/%s, ResourceVersion: 0, AdditionalErrorMsg: %s", name, failed))
			}
			assert.False(t, IsGone(apierrors.NewConflict(requests, name, errors.New("the object has been modified"))),
				"it was written since")
			assert.False(t, IsGone(atStorage("Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 2")),
				"it is in another version, as the storage finds out")
			assert.True(t, IsGone(atStorage("Precondition failed: UID in precondition: 1, UID in object meta: 2")),
				"another has its name, as the storage finds out")
			assert.True(t, IsGone(apierrors.NewConflict(requests, name, errors.New("the UID in the precondition (1) does not match the UID in record (2)"))),
				"another has its name")
		})
	}
}
