package bootstrapsigner

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClusterInfoIsSignedWithEachToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		happens   func(c *cluster)
		want      string
	}{
		{"a token that is there signs", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
		}, "00:00:00 signed by aaaaaa"},
		{"several tokens sign in one write", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), tokenNamed("bbbbbb"), info())
		}, "00:00:00 signed by aaaaaa, bbbbbb"},
		{"a token that comes later signs, too", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(tokenNamed("bbbbbb"))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa, bbbbbb"},
		{"the signature of a token that somebody deletes goes", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.loses(tokenNamed("aaaaaa"))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by nobody"},
		{"a token with another secret signs anew", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(tokenNamed("aaaaaa", saying("token-secret", "0123456789abcdef")))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa with another text or secret"},
		{"a token that may not sign any more does not", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(tokenNamed("aaaaaa", saying("usage-bootstrap-signing", "false")))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by nobody"},
		{"another text is signed anew", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(c.edited(data("kubeconfig", "the cluster has moved")))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa"},
		{"a signature that somebody takes out is put back", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(c.edited(func(cm *corev1.ConfigMap) { delete(cm.Data, "jws-kubeconfig-aaaaaa") }))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa"},
		{"a signature that somebody puts there is taken out", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(c.edited(data("jws-kubeconfig-zzzzzz", "e..x")))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa"},
		{"a ConfigMap that somebody deletes and makes anew is signed", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.loses(info())
			c.at("01:00:00")
			c.has(info(withUID("uid-2")))
		}, "00:00:00 signed by aaaaaa; 01:00:00 signed by aaaaaa"},
		{"one that was made anew between two looks is signed", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(info(withUID("uid-2")))
		}, "00:00:00 signed by aaaaaa; 00:30:00 signed by aaaaaa"},
		{"what is signed already is not written", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info(signedBy("aaaaaa")))
		}, "nothing"},
		{"without a ConfigMap nothing is written", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"))
		}, "nothing"},
		{"a token elsewhere does not sign", func(c *cluster) {
			c.has(tokenNamed("aaaaaa", elsewhere), info())
		}, "nothing"},
		{"a Secret of another type does not sign", func(c *cluster) {
			c.has(tokenNamed("aaaaaa", opaque), info())
		}, "nothing"},
		{"a ConfigMap of the name elsewhere is not signed", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info(func(cm *corev1.ConfigMap) { cm.Namespace = "shop" }))
		}, "nothing"},
		{"another ConfigMap of the namespace is not signed", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info(func(cm *corev1.ConfigMap) { cm.Name = "notes" }))
		}, "nothing"},
		{"an immutable ConfigMap is not written, though it lacks a signature", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info(immutable))
			c.has(tokenNamed("bbbbbb"))
		}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, test.happens), "writes of cluster-info that are asked for")
		})
	}
}

func TestATokenThatRunsOutSignsNoLonger(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		happens              func(c *cluster)
		want                 string
	}{
		{"its signature goes in the second in which it runs out", "it is good until 01:30:07, and nobody deletes it", func(c *cluster) {
			c.has(tokenNamed("aaaaaa", until("01:30:07")), info())
		}, "00:00:00 signed by aaaaaa; 01:30:07 signed by nobody"},
		{"each has a time of its own", "one is good until 01:00, one until 02:00, and one for ever", func(c *cluster) {
			c.has(tokenNamed("cccccc"), tokenNamed("bbbbbb", until("02:00:00")), tokenNamed("aaaaaa", until("01:00:00")), info())
		}, "00:00:00 signed by aaaaaa, bbbbbb, cccccc; 01:00:00 signed by bbbbbb, cccccc; 02:00:00 signed by cccccc"},
		{"one that is prolonged signs on", "it is good until 01:00, and at 00:30 somebody writes 02:00", func(c *cluster) {
			c.has(tokenNamed("aaaaaa", until("01:00:00")), info())
			c.at("00:30:00")
			c.has(tokenNamed("aaaaaa", until("02:00:00")))
		}, "00:00:00 signed by aaaaaa; 02:00:00 signed by nobody"},
		{"one that is cut short does not", "it is good for ever, and at 00:30 somebody writes 00:45", func(c *cluster) {
			c.has(tokenNamed("aaaaaa"), info())
			c.at("00:30:00")
			c.has(tokenNamed("aaaaaa", until("00:45:00")))
		}, "00:00:00 signed by aaaaaa; 00:45:00 signed by nobody"},
		{"one that has run out before signs when it is prolonged", "it was good until yesterday, and at 00:30 somebody writes 01:00", func(c *cluster) {
			c.has(tokenNamed("aaaaaa", until("1999-12-31T00:00:00Z")), info())
			c.at("00:30:00")
			c.has(tokenNamed("aaaaaa", until("01:00:00")))
		}, "00:30:00 signed by aaaaaa; 01:00:00 signed by nobody"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, test.happens), "writes of cluster-info that are asked for: %s", test.situation)
		})
	}
}

func TestAWriteThatIsRefusedIsMadeAgain(t *testing.T) {
	t.Parallel()
	busy := errors.New("the API server is busy")
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "shop.example.com" denied the request`}}
	for behaviour, refusal := range map[string]error{
		"when the API server fails":                     apierrors.NewInternalError(busy),
		"when no answer comes":                          busy,
		"when it is forbidden":                          apierrors.NewForbidden(configMaps.GroupResource(), "cluster-info", errors.New("not now")),
		"when a policy finds it invalid":                apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "cluster-info", nil),
		"when a webhook denies it with 404":             webhook,
		"when the ConfigMap has changed unseen":         apierrors.NewConflict(configMaps.GroupResource(), "cluster-info", errors.New("the object has been modified")),
		"when there are too many requests at this time": apierrors.NewTooManyRequests("later", 1),
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			seen := told(t, func(c *cluster) {
				c.answers(func() error {
					if tries++; tries <= 3 {
						return refusal
					}
					return nil
				})
				c.has(tokenNamed("aaaaaa"), info())
			})
			assert.Equal(t, 4, strings.Count(seen, "signed by aaaaaa"),
				"writes until cluster-info is signed: to the first three the API server says: %v. It was asked: %s", refusal, seen)
		})
	}
	t.Run("from what there is by then", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func() error { return busy })
			c.has(tokenNamed("aaaaaa"), info())
			c.at("01:00:00")
			c.loses(tokenNamed("aaaaaa"))
			c.answers(func() error { return nil })
			c.has(tokenNamed("bbbbbb"))
		})
		_, last, _ := strings.Cut(seen, "01:00:00 ")
		assert.Equal(t, "signed by bbbbbb", last, "what is written at 01:00: until then all writes have failed, and bbbbbb has come for aaaaaa. All writes: %s", seen)
	})
	t.Run("at last every ten seconds", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func() error { return busy })
			c.has(tokenNamed("aaaaaa"), info())
		})
		tries := strings.Count(seen, "signed by aaaaaa")
		assert.Less(t, tries, 6*360+20, "writes in six hours in which all of them fail")
	})
	t.Run("soon enough for a machine that waits", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func() error { return busy })
			c.has(tokenNamed("aaaaaa"), info())
			c.at("01:00:00")
			c.answers(func() error { return nil })
		})
		last := seen[strings.LastIndex(seen, "; ")+2:]
		assert.Regexp(t, "^01:00:(0.|10) signed by aaaaaa$", last, "the write that succeeds: until 01:00 all have failed. kubeadm waits for five minutes")
	})
}

func TestAConfigMapThatIsGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	resource := configMaps.GroupResource()
	for behaviour, refusal := range map[string]error{
		"somebody has deleted it":         apierrors.NewNotFound(resource, "cluster-info"),
		"another has its name by now":     apierrors.NewConflict(resource, "cluster-info", errors.New("Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2")),
		"it was made anew since the look": apierrors.NewConflict(resource, "cluster-info", errors.New("StorageError: invalid object, Code: 4, Key: /x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2")),
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.answers(func() error { return refusal })
				c.has(tokenNamed("aaaaaa"), info())
			})
			assert.Equal(t, "00:00:00 signed by aaaaaa", seen, "writes that are asked for: %s", behaviour)
		})
	}
}
