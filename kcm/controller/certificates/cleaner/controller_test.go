package cleaner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	denied = certificatesv1.CertificateDenied
	failed = certificatesv1.CertificateFailed
)

const year = 365 * 24 * time.Hour

func TestARequestGoesWhenItHasHadItsTime(t *testing.T) {
	t.Parallel()
	undated := func(csr *certificatesv1.CertificateSigningRequest) {
		for i := range csr.Status.Conditions {
			csr.Status.Conditions[i].LastUpdateTime = metav1.Time{}
		}
	}
	for _, test := range []struct {
		behaviour, situation string
		there                *certificatesv1.CertificateSigningRequest
		want                 string
	}{
		{"a request that nobody answers goes after a day", "it was created at midnight", csr(), "24:00:00"},
		{"a request that was denied goes after an hour", "it was denied at midnight", csr(with(denied, 0)), "01:00:00"},
		{"a request that has failed goes after an hour", "it was approved and has failed at midnight", csr(approved(0), with(failed, 0)), "01:00:00"},
		{"a request that has its certificate goes an hour after the approval", "it was approved at midnight, and the certificate is good for a year", csr(approved(0), issued(year)), "01:00:00"},
		{"a request that nobody signs goes a day after the approval", "it was approved at midnight", csr(approved(0)), "24:00:00"},
		{"a request goes when its certificate expires", "it was approved at midnight, and the certificate is good for ten minutes", csr(approved(0), issued(10*time.Minute)), "00:10:00"},
		{"the hour counts from the answer", "it was created the day before, and denied at 23:30", csr(with(denied, -30*time.Minute), func(csr *certificatesv1.CertificateSigningRequest) {
			csr.CreationTimestamp = metav1.NewTime(midnight.Add(-12 * time.Hour))
		}), "00:30:00"},
		{"what has had its time goes at once", "it was denied yesterday at noon", csr(with(denied, -12*time.Hour)), "00:00:00"},
		{"an answer of tomorrow counts from tomorrow", "a clock that is fast says that it was denied at 05:00", csr(with(denied, 5*time.Hour)), "06:00:00"},
		{"of several answers the first counts", "it was denied at 01:00 and has failed at midnight", csr(with(denied, time.Hour), with(failed, 0)), "01:00:00"},
		{"a certificate that nobody can read does not expire", "it was approved at midnight, and the certificate is not in PEM", csr(approved(0), func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Certificate = []byte("mine")
		}), "01:00:00"},
		{"a certificate without an approval goes as if there was none", "a signer has signed at once what was created at midnight", csr(issued(10 * time.Minute)), "24:00:00"},
		{"what somebody has a say of their own about stays", "it has the condition Seen", csr(with("Seen", 0)), "nothing"},
		{"an answer without a time has no end", "it was denied, and nobody knows when", csr(with(denied, 0), undated), "nothing"},
		{"its certificate may have one", "it was approved, nobody knows when, and the certificate is good for a day", csr(approved(0), undated, issued(24*time.Hour)), "24:00:00"},
		{"whoever asks cannot put it off", "it was approved and signed at midnight, and its creator has written down who will write it in 2099", csr(approved(0), signed(0), func(csr *certificatesv1.CertificateSigningRequest) {
			csr.ManagedFields = []metav1.ManagedFieldsEntry{{
				Time: new(metav1.NewTime(midnight.AddDate(99, 0, 0))), FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:certificate":{"f:x":{}}}}`),
			}}
		}), "01:00:00"},
		{"what is being deleted is left alone", "it was denied yesterday, and a finalizer holds it", csr(with(denied, -24*time.Hour), func(csr *certificatesv1.CertificateSigningRequest) {
			csr.DeletionTimestamp, csr.Finalizers = new(metav1.NewTime(midnight)), []string{"example.com/held"}
		}), "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			want := test.want
			if want != "nothing" {
				want += " node-csr, uid-1 at version 7"
			}
			assert.Equal(t, want, told(t, func(c *cluster) { c.has(test.there) }), "deletions that are asked for: %s", test.situation)
		})
	}
}

// Decisions read nothing but the request and the time. Each change of it, and the end of its time, wake
// the loop: a table of other objects that do, as other loops have one, would be empty.
func TestWhatIsSaidLastCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		first, then          *certificatesv1.CertificateSigningRequest
		want                 string
	}{
		{"a request that is denied late stays for an hour more", "it is of midnight, and is denied at 23:30", csr(), csr(with(denied, 23*time.Hour+30*time.Minute)), "24:30:00 node-csr, uid-1 at version 7"},
		{"a request that is approved late stays for a day more", "it is of midnight, and is approved at 23:30", csr(), csr(approved(23*time.Hour + 30*time.Minute)), "47:30:00 node-csr, uid-1 at version 7"},
		{"a request that is signed late stays for an hour more", "it is approved at midnight, and signed at 23:30", csr(approved(0)), csr(approved(0), signed(23*time.Hour+30*time.Minute)), "24:30:00 node-csr, uid-1 at version 7"},
		{"a certificate that was made before the approval does not count from then", "it is approved at 23:00, and its signer gives it one that is a year old", csr(approved(23 * time.Hour)), csr(approved(23*time.Hour), issued(year)), "24:00:00 node-csr, uid-1 at version 7"},
		{"a request that is made anew under its name has its own time", "one of midnight is replaced at 23:30", csr(), csr(withUID("uid-2"), func(csr *certificatesv1.CertificateSigningRequest) {
			csr.CreationTimestamp = metav1.NewTime(midnight.Add(23*time.Hour + 30*time.Minute))
		}), "47:30:00 node-csr, uid-2 at version 7"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.has(test.first)
				c.after(23*time.Hour + 30*time.Minute)
				c.has(test.then)
			})
			assert.Equal(t, test.want, seen, "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("a request that somebody has deleted is forgotten", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(time.Hour)
			requests := certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
			assert.NoError(t, c.client.Tracker().Delete(requests, "", "node-csr"))
		})
		assert.Equal(t, "nothing", seen, "deletions that are asked for: it is of midnight, and somebody deletes it at 01:00")
	})
}

func TestARequestForAPodGoesAfterAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	forPod := func(namespace string, after time.Duration) *certificatesv1beta1.PodCertificateRequest {
		return &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "req", UID: "uid-1", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(midnight.Add(after)),
		}}
	}
	for _, test := range []struct {
		behaviour, situation string
		after                time.Duration
		edit                 func(*certificatesv1beta1.PodCertificateRequest)
		want                 string
	}{
		{"it goes after a quarter of an hour", "it is of midnight", 0, nil, "00:15:00 shop/req, uid-1 at version 7"},
		{"it goes whatever the answer was", "it is of midnight, and has its certificate", 0, func(pcr *certificatesv1beta1.PodCertificateRequest) {
			pcr.Status.Conditions = []metav1.Condition{{Type: "Issued", Status: "True"}}
		}, "00:15:00 shop/req, uid-1 at version 7"},
		{"one that is older goes at once", "it is of yesterday", -24 * time.Hour, nil, "00:00:00 shop/req, uid-1 at version 7"},
		{"one that is being deleted is left alone", "a finalizer holds it since midnight", 0, func(pcr *certificatesv1beta1.PodCertificateRequest) {
			pcr.DeletionTimestamp, pcr.Finalizers = new(metav1.NewTime(midnight)), []string{"example.com/held"}
		}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			there := forPod("shop", test.after)
			if test.edit != nil {
				test.edit(there)
			}
			assert.Equal(t, test.want, told(t, func(c *cluster) { c.hasForPod(there) }), "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("each of two namespaces has its own", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.hasForPod(forPod("b", time.Minute))
			c.hasForPod(forPod("a", 0))
		})
		assert.Equal(t, "00:15:00 a/req, uid-1 at version 7; 00:16:00 b/req, uid-1 at version 7", seen,
			"deletions that are asked for: a has a request of midnight, b one of 00:01, of the same name")
	})
}

func TestADeletionMayFail(t *testing.T) {
	t.Parallel()
	requests, busy := certificatesv1.Resource("certificatesigningrequests"), errors.New("the API server is busy")
	for behaviour, refusal := range map[string]error{
		"a deletion that fails is tried again":                  apierrors.NewInternalError(busy),
		"a deletion that is forbidden is tried again":           apierrors.NewForbidden(requests, "node-csr", errors.New("not now")),
		"a deletion that a policy finds invalid is tried again": apierrors.NewInvalid(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind(), "node-csr", nil),
		"a request that was answered unseen is looked at again": apierrors.NewConflict(requests, "node-csr", errors.New("Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8")),
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			seen := told(t, func(c *cluster) {
				c.answers(func(string) error {
					if tries++; tries <= 3 {
						return refusal
					}
					return nil
				})
				c.has(csr(with(denied, 0)))
			})
			assert.Equal(t, 4, strings.Count(seen, "node-csr"), "requests until it is gone: to the first three the API server says: %v. It was asked: %s", refusal, seen)
		})
	}
	t.Run("a request that cannot be deleted keeps no other", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func(name string) error {
				if name == "held" {
					return apierrors.NewInternalError(busy)
				}
				return nil
			})
			c.has(csr(called("held"), with(denied, -2*time.Hour)))
			c.after(time.Minute)
			c.has(csr(with(denied, 0)))
		})
		assert.Contains(t, seen, "01:00:00 node-csr", "deletions that are asked for: that of held is refused since midnight")
	})
	for _, test := range []struct {
		behaviour, situation string
		refusal              error
	}{
		{"a request that somebody else has deleted is no failure", "the API server says that there is none", apierrors.NewNotFound(requests, "node-csr")},
		{"a request that was made anew is no failure", "the API server says that the UID is another",
			apierrors.NewConflict(requests, "node-csr", errors.New("Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"))},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.answers(func(string) error { return test.refusal })
				c.has(csr(with(denied, 0)))
			})
			assert.Equal(t, "01:00:00 node-csr, uid-1 at version 7", seen, "deletions that are asked for: %s", test.situation)
		})
	}
}
