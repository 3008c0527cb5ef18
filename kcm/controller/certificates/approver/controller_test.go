package approver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// only lets who has one right.
func only(subresource string) func(authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return func(spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		return spec.ResourceAttributes.Subresource == subresource, nil
	}
}

func TestARequestIsApprovedByARight(t *testing.T) {
	t.Parallel()
	const (
		forAny  = "Auto approving kubelet client certificate after SubjectAccessReview."
		forSelf = "Auto approving self kubelet client certificate after SubjectAccessReview."
	)
	for _, test := range []struct {
		behaviour, situation string
		there                *certificatesv1.CertificateSigningRequest
		may                  func(authorizationv1.SubjectAccessReviewSpec) (bool, error)
		want, message        string
	}{
		{"who may set up nodes is given a certificate for one", "a bootstrap token asks, which has the right nodeclient", csr(), only("nodeclient"),
			"00:00:00 may token nodeclient? yes; 00:00:00 approve node-csr", forAny},
		{"a node that may renew its certificate is given another", "node-1 asks for itself, and has the right selfnodeclient", csr(renewal), only("selfnodeclient"),
			"00:00:00 may system:node:node-1 selfnodeclient? yes; 00:00:00 approve node-csr", forSelf},
		{"a node that may set up nodes may set up itself", "node-1 asks for itself, and has the right nodeclient", csr(renewal), only("nodeclient"),
			"00:00:00 may system:node:node-1 selfnodeclient? no; 00:00:00 may system:node:node-1 nodeclient? yes; 00:00:00 approve node-csr", forAny},
		{"what is not asked about is not approved", "it is for another signer, and everybody may do everything", csr(func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.SignerName = "kubernetes.io/kube-apiserver-client"
		}), everybody, "nothing", ""},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			var c *cluster
			seen := told(t, func(running *cluster) {
				c = running
				c.gives(test.may)
				c.has(test.there)
			})
			assert.Equal(t, test.want, seen, "what the API server is asked: %s", test.situation)
			var message string
			for _, csr := range c.approvals {
				message = csr.Status.Conditions[0].Message
			}
			assert.Equal(t, test.message, message, "what the approval says: %s", test.situation)
		})
	}
	t.Run("a right to one node is none to another", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.gives(only("selfnodeclient"))
			c.has(csr(byNode("node-2")))
		})
		assert.NotContains(t, seen, "approve", "what the API server is asked: node-2 has the right selfnodeclient, and asks for node-1")
	})
}

// One look at a request, without the loop around it.
func TestAQuestionComesBeforeTheWrite(t *testing.T) {
	t.Parallel()
	requests := certificatesv1.Resource("certificatesigningrequests")
	busy := apierrors.NewInternalError(errors.New("the API server is busy"))
	fails := func(authorizationv1.SubjectAccessReviewSpec) (bool, error) { return false, busy }
	for _, test := range []struct {
		behaviour string
		there     *certificatesv1.CertificateSigningRequest
		may       func(authorizationv1.SubjectAccessReviewSpec) (bool, error)
		meanwhile edit  // what becomes of the request while it is asked about, or nil
		refusal   error // what the API server says to the approval
		want      string
	}{
		{"a yes is followed by an approval", csr(), only("nodeclient"), nil, nil, "may token nodeclient? yes; approve uid-1 at version 7"},
		{"an approval names the UID and the version that were looked at", csr(), everybody, nil, nil, "may token nodeclient? yes; approve uid-1 at version 7"},
		{"the smaller right is asked about first", csr(renewal), everybody, nil, nil, "may system:node:node-1 selfnodeclient? yes; approve uid-1 at version 7"},
		{"the greater right is asked about then", csr(renewal), only("nodeclient"), nil, nil,
			"may system:node:node-1 selfnodeclient? no; may system:node:node-1 nodeclient? yes; approve uid-1 at version 7"},
		{"a no is no error, and nothing is written", csr(), nobody, nil, nil, "may token nodeclient? no"},
		{"after a question that fails no other is asked", csr(renewal), fails, nil, nil, "may system:node:node-1 selfnodeclient? error; an error"},
		{"an approval that fails is an error", csr(), everybody, nil, busy, "may token nodeclient? yes; approve uid-1 at version 7; an error"},
		{"a request that was there is no error", csr(), everybody, nil, apierrors.NewNotFound(requests, "node-csr"), "may token nodeclient? yes; approve uid-1 at version 7"},
		{"a request that takes its name meanwhile is not approved", csr(), everybody,
			func(csr *certificatesv1.CertificateSigningRequest) {
				csr.UID, csr.ResourceVersion, csr.Spec.Username = "uid-2", "8", "stranger"
			}, nil,
			"may token nodeclient? yes; approve uid-1 at version 7"},
		{"a request that a person denies meanwhile is not approved", csr(), everybody,
			func(csr *certificatesv1.CertificateSigningRequest) {
				csr.ResourceVersion = "8"
				with(certificatesv1.CertificateDenied)(csr)
			}, nil,
			"may token nodeclient? yes; approve uid-1 at version 7"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			client := fake.NewSimpleClientset(test.there)
			var seen []string
			client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				allowed, err := test.may(review.Spec)
				answer := map[bool]string{true: "yes", false: "no"}[allowed]
				if err != nil {
					answer = "error"
				}
				seen = append(seen, fmt.Sprintf("may %s %s? %s", review.Spec.User, review.Spec.ResourceAttributes.Subresource, answer))
				if test.meanwhile != nil {
					changed := test.there.DeepCopy()
					test.meanwhile(changed)
					assert.NoError(t, client.Tracker().Update(certificatesv1.SchemeGroupVersion.WithResource(resource), changed, ""))
				}
				review.Status.Allowed = allowed
				return true, review, err
			})
			client.PrependReactor("update", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
				csr := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
				seen = append(seen, fmt.Sprintf("approve %s at version %s", csr.UID, csr.ResourceVersion))
				return true, csr, test.refusal
			})
			c := &Controller{client: client}
			reviews, err := decide(test.there)
			require.NoError(t, err)
			granted, err := c.ask(t.Context(), test.there, reviews)
			if err == nil && granted != nil {
				err = c.approve(t.Context(), test.there, granted)
			}
			if err != nil {
				seen = append(seen, "an error")
			}
			assert.Equal(t, test.want, strings.Join(seen, "; "), "what the API server is asked")
		})
	}
}

func TestNoApprovalIsGivenFromMemory(t *testing.T) {
	t.Parallel()
	t.Run("no approval is given from memory", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.gives(everybody)
			c.has(csr())
			c.after(time.Second)
			c.gives(nobody)
			c.has(csr(called("later")))
		})
		assert.Equal(t, 1, strings.Count(seen, "approve"), "approvals: a token is good for one request, and then has lost its right. The API server was asked: %s", seen)
		assert.NotContains(t, seen, "approve later")
	})
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	requests, busy := certificatesv1.Resource("certificatesigningrequests"), errors.New("the API server is busy")
	for behaviour, refusal := range map[string]error{
		"an approval that fails is tried again":                  apierrors.NewInternalError(busy),
		"an approval that is forbidden is tried again":           apierrors.NewForbidden(requests, "node-csr", errors.New("not now")),
		"an approval that a policy finds invalid is tried again": apierrors.NewInvalid(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind(), "node-csr", nil),
		"a request that has changed unseen is looked at again":   apierrors.NewConflict(requests, "node-csr", errors.New("the object has been modified")),
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			seen := told(t, func(c *cluster) {
				c.gives(everybody)
				c.answers(func(string) error {
					if tries++; tries <= 3 {
						return refusal
					}
					return nil
				})
				c.has(csr())
			})
			assert.Equal(t, 4, strings.Count(seen, "approve"), "approvals: to the first three the API server says: %v. It was asked: %s", refusal, seen)
			assert.Equal(t, 4, strings.Count(seen, "may"), "questions: one before each approval. The API server was asked: %s", seen)
		})
	}
	t.Run("a question that fails is no refusal", func(t *testing.T) {
		t.Parallel()
		tries := 0
		seen := told(t, func(c *cluster) {
			c.gives(func(authorizationv1.SubjectAccessReviewSpec) (bool, error) {
				if tries++; tries <= 3 {
					return false, apierrors.NewInternalError(busy)
				}
				return true, nil
			})
			c.has(csr())
		})
		assert.Equal(t, 3, strings.Count(seen, "error"), "questions that fail. The API server was asked: %s", seen)
		assert.Equal(t, 1, strings.Count(seen, "approve"), "approvals. The API server was asked: %s", seen)
	})
	t.Run("a request that cannot be approved keeps no other", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.gives(everybody)
			c.answers(func(name string) error {
				if name == "held" {
					return apierrors.NewInternalError(busy)
				}
				return nil
			})
			c.has(csr(called("held")))
			c.after(time.Minute)
			c.has(csr())
		})
		assert.Contains(t, seen, "00:01:00 approve node-csr", "what the API server is asked: the approval of held fails since midnight")
	})
}

func TestARequestMayBeAnotherByNow(t *testing.T) {
	t.Parallel()
	requests := certificatesv1.Resource("certificatesigningrequests")
	for _, test := range []struct {
		behaviour, situation string
		refusal              error
	}{
		{"a request that is gone is no failure", "the API server says that there is none", apierrors.NewNotFound(requests, "node-csr")},
		{"a request that was made anew is no failure", "the API server says that the UID is another",
			apierrors.NewConflict(requests, "node-csr", errors.New("Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"))},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.gives(everybody)
				c.answers(func(string) error { return test.refusal })
				c.has(csr())
			})
			assert.Equal(t, "00:00:00 may token nodeclient? yes; 00:00:00 approve node-csr", seen, "what the API server is asked: %s", test.situation)
		})
	}
	t.Run("an approval whose answer is lost is not given twice", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.gives(everybody)
			c.lost = true
			c.answers(func(string) error { return apierrors.NewTimeoutError("no answer", 0) })
			c.has(csr())
		})
		assert.Equal(t, "00:00:00 may token nodeclient? yes; 00:00:00 approve node-csr", seen,
			"what the API server is asked: it has stored the approval, and the answer is lost")
	})
}

func TestARefusalIsAskedAboutEverLessOften(t *testing.T) {
	t.Parallel()
	t.Run("a refusal is asked about after twice as long each time", func(t *testing.T) {
		t.Parallel()
		told(t, func(c *cluster) {
			c.has(csr())
			c.after(time.Minute)
			assert.Equal(t, 9, c.count("may"), "questions until 00:01: 0 s, 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4 and 51 s after midnight")
		})
	})
	t.Run("it is asked about every 1000 seconds in the end", func(t *testing.T) {
		t.Parallel()
		told(t, func(c *cluster) {
			c.has(csr())
			c.after(time.Hour)
			before := c.count("may")
			c.after(time.Hour + 1000*time.Second)
			assert.Equal(t, 1, c.count("may")-before, "questions in the 1000 s after 01:00")
		})
	})
	t.Run("a hundred requests of a user are one question", func(t *testing.T) {
		t.Parallel()
		var there []*certificatesv1.CertificateSigningRequest
		for i := range 100 {
			there = append(there, csr(called(fmt.Sprintf("csr-%d", i))))
		}
		told(t, func(c *cluster) {
			c.after(time.Minute)
			assert.Equal(t, 9, c.count("may"), "questions until 00:01: as many as about one")
			c.gives(everybody)
		}, there...)
	})
	t.Run("what has changed elsewhere is noticed when it is time", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(20 * time.Minute)
			c.gives(everybody) // as a webhook may, without a word
		})
		assert.Contains(t, seen, "00:27:18 approve node-csr", "what the API server is asked: the user has the right since 00:20, and was last refused at 00:13:39")
	})
	t.Run("a refusal of one user is none of another", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.gives(func(spec authorizationv1.SubjectAccessReviewSpec) (bool, error) { return spec.User == "other", nil })
			c.has(csr())
			c.after(time.Minute)
			c.has(csr(called("theirs"), by("other")))
		})
		assert.Contains(t, seen, "00:01:00 approve theirs", "what the API server is asked: token is refused since midnight")
	})
}

func TestARefusalDoesNotOutliveItsReasons(t *testing.T) {
	t.Parallel()
	t.Run("a new request of the user is asked about at once", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(10 * time.Minute)
			c.gives(everybody)
			c.has(csr(called("second")))
		})
		assert.Contains(t, seen, "00:10:00 approve second", "what the API server is asked: token was refused at 00:06:49, and is to be asked about at 00:13:39")
	})
	t.Run("so is a request that is made anew under its name", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(10 * time.Minute)
			c.gives(everybody)
			c.loses("node-csr")
			c.has(csr(func(csr *certificatesv1.CertificateSigningRequest) { csr.UID = "uid-2" }))
		})
		assert.Contains(t, seen, "00:10:00 approve node-csr", "what the API server is asked")
	})
	t.Run("a new request does not put off the others", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			for i := range 9 {
				c.after(time.Duration(14+i) * time.Minute)
				c.has(csr(called(fmt.Sprintf("csr-%d", i))))
			}
			c.gives(everybody)
		})
		assert.Contains(t, seen, "00:27:18 approve node-csr", "what the API server is asked: it is its turn at 00:27:18, and from 00:14 to 00:22 there was a new request each minute")
	})
	t.Run("when somebody is given the right, all are looked at", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr(), csr(called("second")))
			c.after(time.Hour)
			c.gives(everybody)
			c.binds("system:bootstrappers")
		})
		assert.Contains(t, seen, "01:00:00 approve node-csr", "what the API server is asked: there is a binding since 01:00")
		assert.Contains(t, seen, "01:00:00 approve second", "what the API server is asked: there is a binding since 01:00")
	})
	t.Run("an API server that does not know of the right yet is asked again soon", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(time.Hour)
			c.binds("system:bootstrappers")
			c.after(time.Hour + 2*time.Second)
			c.gives(everybody)
		})
		assert.Contains(t, seen, "01:00:03 approve node-csr", "what the API server is asked: there is a binding since 01:00:00, of which it knows at 01:00:02")
	})
	t.Run("what is answered otherwise meanwhile is left alone", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(csr())
			c.after(10 * time.Minute)
			c.has(csr(with(certificatesv1.CertificateDenied)))
			c.gives(everybody)
			c.binds("system:bootstrappers")
		})
		assert.NotContains(t, seen, "approve", "what the API server is asked: a person has denied the request at 00:10")
	})
}
