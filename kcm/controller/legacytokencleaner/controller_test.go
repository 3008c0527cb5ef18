package legacytokencleaner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// since1999 is a cluster whose API server has noted for long which tokens are used, and whose account
// builder lists its token.
func since1999(objects ...runtime.Object) []runtime.Object {
	return append(objects, trackedSince("1999-01-01"), account("builder-token"))
}

// A change of a token or of its account has the token looked at a day later, and no change of a pod does. Rows
// below play each of these, so there is no table of what wakes the loop, as other loops have one.
func TestATokenThatNobodyUsesGoesInTwoSteps(t *testing.T) {
	t.Parallel()
	const gone = "2000-01-01 mark builder-token with 2000-01-01; 2000-01-12 delete builder-token"
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for _, test := range []struct {
		behaviour, situation string
		there                []runtime.Object
		happens              func(c *cluster)
		want                 string
	}{
		{"a token is marked, and when the period has passed it goes", "nobody uses it", since1999(secret()), func(*cluster) {}, gone},
		{"the last use counts", "it was used on December 31", since1999(secret(used("1999-12-31"))), func(*cluster) {},
			"2000-01-11 mark builder-token with 2000-01-11; 2000-01-22 delete builder-token"},
		{"a token that is used goes on", "it is used each week", since1999(secret(used("1999-12-31"))), func(c *cluster) {
			for _, on := range []string{"2000-01-07", "2000-01-14", "2000-01-21"} {
				c.until(on + " 12:00")
				c.edit("builder-token", used(on))
			}
		}, "2000-02-01 mark builder-token with 2000-02-01; 2000-02-12 delete builder-token"},
		{"who tries to use a marked token keeps it", "somebody is refused with it on January 8", since1999(secret()), func(c *cluster) {
			c.until("2000-01-08 12:00")
			c.edit("builder-token", used("2000-01-08"))
		}, "2000-01-01 mark builder-token with 2000-01-01; 2000-01-19 delete builder-token"},
		{"a user who takes off the mark has time to use the token", "the mark is taken off on January 5 at noon, and the token is used at six o'clock", since1999(secret()), func(c *cluster) {
			c.until("2000-01-05 12:00")
			c.edit("builder-token", unmarked)
			c.until("2000-01-05 18:00")
			c.edit("builder-token", used("2000-01-05"))
		}, "2000-01-01 mark builder-token with 2000-01-01; 2000-01-16 mark builder-token with 2000-01-16; 2000-01-27 delete builder-token"},
		{"a token that a pod mounts stays for as long", "web-0 mounts it, and goes on January 5 at noon", since1999(secret(), mounting("builder-token")), func(c *cluster) {
			c.until("2000-01-05 12:00")
			assert.NoError(c.t, c.client.Tracker().Delete(pods, "shop", "web-0"))
		}, "2000-01-06 mark builder-token with 2000-01-06; 2000-01-17 delete builder-token"},
		{"a pod that comes again at once has never been away", "web-0 mounts it, and is made anew each day within a second", since1999(secret(), mounting("builder-token")), func(c *cluster) {
			for range 20 {
				time.Sleep(23 * time.Hour)
				assert.NoError(c.t, c.client.Tracker().Delete(pods, "shop", "web-0"))
				time.Sleep(time.Second)
				assert.NoError(c.t, c.client.Tracker().Create(pods, mounting("builder-token"), "shop"))
			}
		}, "nothing"},
		{"a token that its account does not list stays", "a user has made it", []runtime.Object{trackedSince("1999-01-01"), account(), secret()}, func(*cluster) {}, "nothing"},
		{"a token of an account of that name stays", "its UID is another", []runtime.Object{trackedSince("1999-01-01"), account("builder-token"),
			secret(func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "former" })}, func(*cluster) {}, "nothing"},
		{"a token that names no UID is that of the account that has the name", "it has no such annotation", since1999(
			secret(func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) })), func(*cluster) {}, gone},
		{"a Secret of another type stays, though it is listed", "it is Opaque", since1999(secret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })), func(*cluster) {}, "nothing"},
		{"a token that its account lists from now on is looked at a day later", "it is added to the list on January 5", []runtime.Object{trackedSince("1999-01-01"), account(), secret()}, func(c *cluster) {
			c.until("2000-01-05")
			assert.NoError(c.t, c.client.Tracker().Update(accounts, account("builder-token"), "shop"))
		}, "2000-01-06 mark builder-token with 2000-01-06; 2000-01-17 delete builder-token"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, test.there, test.happens), "what is asked for: the period is ten days, and it is January 1: %s", test.situation)
		})
	}
}

func TestNothingIsKnownOfTheTimeBeforeUseWasNoted(t *testing.T) {
	t.Parallel()
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for _, test := range []struct {
		behaviour, situation string
		there                []runtime.Object
		happens              func(c *cluster)
		want                 string
	}{
		{"a token is unused from the day after the one on which that was begun", "that was December 24", []runtime.Object{trackedSince("1999-12-24")}, func(*cluster) {},
			"2000-01-04 mark builder-token with 2000-01-04; 2000-01-15 delete builder-token"},
		{"where nothing says so nothing has been noted", "there is no ConfigMap", nil, func(*cluster) {}, "nothing"},
		{"what is no day says nothing", "it says: long ago", []runtime.Object{trackedSince("long ago")}, func(*cluster) {}, "nothing"},
		{"it may begin anew", "the ConfigMap goes at once, and on January 10 there is a new one", []runtime.Object{trackedSince("1999-12-24")}, func(c *cluster) {
			assert.NoError(c.t, c.client.Tracker().Delete(configMaps, "kube-system", trackingName))
			c.until("2000-01-10")
			assert.NoError(c.t, c.client.Tracker().Create(configMaps, trackedSince("2000-01-10"), "kube-system"))
		}, "2000-01-21 mark builder-token with 2000-01-21; 2000-02-01 delete builder-token"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			there := append(test.there, account("builder-token"), secret())
			assert.Equal(t, test.want, told(t, there, test.happens), "what is asked for: the period is ten days, and it is January 1: %s", test.situation)
		})
	}
	t.Run("one question serves all tokens", func(t *testing.T) {
		t.Parallel()
		there := []runtime.Object{trackedSince("1999-01-01")}
		var lists []string
		for i := range 50 {
			lists = append(lists, fmt.Sprintf("token-%d", i))
			there = append(there, secret(named(lists[i])))
		}
		told(t, append(there, account(lists...)), func(c *cluster) {
			time.Sleep(time.Hour)
			c.mu.Lock()
			defer c.mu.Unlock()
			assert.Equal(t, 1, c.looks, "questions about the ConfigMap in an hour, while %d tokens were looked at", len(c.asked))
		})
	})
	t.Run("a question that is refused is asked again, and not for each token", func(t *testing.T) {
		t.Parallel()
		there := []runtime.Object{trackedSince("1999-01-01"), account()}
		var lists []string
		for i := range 50 {
			lists = append(lists, fmt.Sprintf("token-%d", i))
			there = append(there, secret(named(lists[i])))
		}
		told(t, there, func(c *cluster) {
			c.until("2000-01-01 12:00")
			c.refuse = func(verb string) error {
				if verb == "get" && time.Now().Before(day("2000-01-02 18:00")) {
					return apierrors.NewForbidden(corev1.Resource("configmaps"), trackingName, errors.New("not now"))
				}
				return nil
			}
			assert.NoError(c.t, c.client.Tracker().Update(accounts, account(lists...), "shop"))
			c.until("2000-01-02 23:00")
			c.mu.Lock()
			defer c.mu.Unlock()
			assert.LessOrEqual(t, c.looks, 6*6+2, "questions in six hours in which they are refused, and after that")
			assert.Len(t, c.asked, 50, "tokens that are marked after that")
		})
	})
}

func TestATokenIsMeantAsItWasLookedAt(t *testing.T) {
	t.Parallel()
	t.Run("each request names the UID and the version", func(t *testing.T) {
		t.Parallel()
		var c *cluster
		told(t, since1999(secret(func(s *corev1.Secret) { s.ResourceVersion = "7" })), func(running *cluster) { c = running })
		assert.Equal(t, "uid-token at 7; uid-token at 101", strings.Join(c.meant, "; "))
	})
	for _, test := range []struct {
		behaviour, situation, verb string
		token                      *corev1.Secret
		faster                     func(s *corev1.Secret)
		want                       string
	}{
		{"a token that was used just before it is marked stays", "the token is used on January 1", "patch", secret(), used("2000-01-01"),
			"2000-01-01 mark builder-token with 2000-01-01; 2000-01-12 mark builder-token with 2000-01-12; 2000-01-23 delete builder-token"},
		{"a token that was used just before it is deleted stays", "the token is used on January 1", "delete", secret(marked("1999-12-01")), used("2000-01-01"),
			"2000-01-01 delete builder-token; 2000-01-12 delete builder-token"},
		{"another Secret of the name is not deleted", "another token has come by its name, made at noon", "delete", secret(marked("1999-12-01")),
			func(s *corev1.Secret) { s.UID = "another"; unmarked(s); created("2000-01-01 12:00")(s) },
			"2000-01-01 delete builder-token; 2000-01-12 mark builder-token with 2000-01-12; 2000-01-23 delete builder-token"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			first := true
			seen := told(t, since1999(), func(c *cluster) {
				c.before = func(verb string) {
					if verb == test.verb && first {
						first = false
						c.edit("builder-token", test.faster)
					}
				}
				assert.NoError(c.t, c.client.Tracker().Create(secrets, test.token, "shop"))
			})
			assert.Equal(t, test.want, seen, "what is asked for: before the API server has heard the first request to %s it, %s", test.verb, test.situation)
		})
	}
}

func TestARequestMayBeRefused(t *testing.T) {
	t.Parallel()
	resource, busy := secrets.GroupResource(), errors.New("the API server is busy")
	for behaviour, refusal := range map[string]error{
		"what fails is asked again":                     apierrors.NewInternalError(busy),
		"what is forbidden is asked again":              apierrors.NewForbidden(resource, "builder-token", busy),
		"what a policy finds invalid is asked again":    apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "builder-token", nil),
		"what was written since is asked the day after": apierrors.NewConflict(resource, "builder-token", busy),
		"what a webhook calls a conflict is asked again": webhookerrors.ToStatusErr("policy.example.com",
			&metav1.Status{Reason: metav1.StatusReasonConflict, Code: 409}),
	} {
		last := "2000-01-12 delete builder-token"
		if controller.HasChanged(refusal) {
			last = "2000-01-15 delete builder-token"
		}
		for _, verb := range []string{"patch", "delete"} {
			t.Run(behaviour+", to "+verb, func(t *testing.T) {
				t.Parallel()
				tries := 0
				seen := told(t, since1999(), func(c *cluster) {
					c.refuse = func(asked string) error {
						if asked != verb {
							return nil
						}
						if tries++; tries <= 3 {
							return refusal
						}
						return nil
					}
					assert.NoError(c.t, c.client.Tracker().Create(secrets, secret(), "shop"))
				})
				assert.Equal(t, 4, tries, "requests to %s a token: to the first three the API server says: %v. It was asked: %s", verb, refusal, seen)
				assert.Equal(t, last, seen[strings.LastIndex(seen, "; ")+2:], "the last request")
			})
		}
	}
}
