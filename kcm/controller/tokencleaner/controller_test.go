package tokencleaner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	mu     sync.Mutex
	// asked are the deletions that were asked for, uids and versions what they have
	// named, and refuse is what the API server says to each.
	asked          []string
	uids, versions []string
	refuse         func(name string) error
}

// told runs a controller in a cluster while something happens there, and for six
// hours after that, and returns which deletions it has asked for, and when.
func told(t *testing.T, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string) error { return nil }}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		c.client.PrependReactor("delete", "secrets", c.deletes)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim(Reads...)))
		controller := New(c.client, factory.Core().V1().Secrets())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { controller.Run(ctx, 1); close(ended) }()
		happens(c)
		time.Sleep(6 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	if c.asked == nil {
		return "nothing"
	}
	return strings.Join(c.asked, "; ")
}

func (c *cluster) deletes(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	del := action.(clienttesting.DeleteActionImpl)
	c.asked = append(c.asked, fmt.Sprintf("%s delete %s/%s", time.Now().UTC().Format(time.TimeOnly), del.Namespace, del.Name))
	uid, version := "whoever has the name", "whatever it says"
	if p := del.DeleteOptions.Preconditions; p != nil && p.UID != nil {
		uid = string(*p.UID)
	}
	if p := del.DeleteOptions.Preconditions; p != nil && p.ResourceVersion != nil {
		version = *p.ResourceVersion
	}
	c.uids, c.versions = append(c.uids, uid), append(c.versions, version)
	err := c.refuse(del.Name)
	return err != nil, nil, err
}

// answers has the API server refuse deletions from now on.
func (c *cluster) answers(refuse func(name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// at waits until it is that time.
func (c *cluster) at(clock string) {
	until, err := time.Parse(time.DateTime, "2000-01-01 "+clock)
	assert.NoError(c.t, err)
	time.Sleep(time.Until(until))
}

// has puts Secrets there, in place of those that have their names.
func (c *cluster) has(secrets ...*corev1.Secret) {
	for _, secret := range secrets {
		api := c.client.CoreV1().Secrets(secret.Namespace)
		_, err := api.Update(c.t.Context(), secret, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(c.t.Context(), secret, metav1.CreateOptions{})
		}
		assert.NoError(c.t, err)
	}
}

// token is one that says that. If it is a time of day, it is that of January 1.
func token(expiration string, edits ...func(*corev1.Secret)) *corev1.Secret {
	if _, err := time.Parse(time.TimeOnly, expiration); err == nil {
		expiration = "2000-01-01T" + expiration + "Z"
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "token", UID: "uid-1", ResourceVersion: "7"},
		Type:       "bootstrap.kubernetes.io/token",
		Data:       map[string][]byte{"token-id": []byte("abcdef"), "expiration": []byte(expiration)},
	}
	for _, edit := range edits {
		edit(secret)
	}
	return secret
}

func named(name string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Name = name }
}

func opaque(secret *corev1.Secret) { secret.Type = corev1.SecretTypeOpaque }

func TestATokenGoesWhenItHasRunOut(t *testing.T) {
	t.Parallel()
	const yesterday = "1999-12-31T12:00:00Z"
	for _, test := range []struct {
		behaviour, situation string
		there                *corev1.Secret
		want                 string
	}{
		{"a token that has run out is deleted", "it was good until yesterday", token(yesterday),
			"00:00:00 delete kube-system/token"},
		{"a token goes in the second in which it runs out", "it is good until 01:30:07", token("01:30:07"),
			"01:30:07 delete kube-system/token"},
		{"a time may be that of another zone", "it is good until three o'clock in the zone of +02:00", token("2000-01-01T03:00:00+02:00"),
			"01:00:00 delete kube-system/token"},
		{"a token that says nothing about it stays", "there is no expiration in its data",
			token("", func(s *corev1.Secret) { delete(s.Data, "expiration") }), "nothing"},
		{"a token without any data stays", "it has no data", token("", func(s *corev1.Secret) { s.Data = nil }), "nothing"},
		{"a time that is empty is none", "its expiration is empty", token(""), "nothing"},
		{"what is no time has run out", "its expiration is tomorrow", token("tomorrow"),
			"00:00:00 delete kube-system/token"},
		{"a time without a zone is no time", "its expiration is 2000-01-01T05:00:00", token("2000-01-01T05:00:00"),
			"00:00:00 delete kube-system/token"},
		{"a Secret of another type stays", "it is Opaque, and its expiration was yesterday", token(yesterday, opaque), "nothing"},
		{"a Secret in another namespace stays", "it is in default, and its expiration was yesterday",
			token(yesterday, func(s *corev1.Secret) { s.Namespace = "default" }), "nothing"},
		{"a token counts whatever it is called", "it is called join, and was good until yesterday", token(yesterday, named("join")),
			"00:00:00 delete kube-system/join"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, func(c *cluster) { c.has(test.there) }), "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("each of several tokens has a time of its own", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(token("02:00:00", named("b")), token("01:00:00", named("a")), token("", named("c")))
		})
		assert.Equal(t, "01:00:00 delete kube-system/a; 02:00:00 delete kube-system/b", seen,
			"deletions that are asked for: a is good until 01:00, b until 02:00, and c says nothing")
	})
}

// Decisions read nothing but the Secret and the time. Each change of it, and its expiration, wake the loop:
// a table of other objects that do, as other loops have one, would be empty.
func TestWhatATokenSaysLastCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		first, then          *corev1.Secret
		want                 string
	}{
		{"a token may be prolonged", "it is good until 01:00, and at 00:30 somebody writes 03:00", token("01:00:00"), token("03:00:00"),
			"03:00:00 delete kube-system/token"},
		{"a token may be cut short", "it is good until 03:00, and at 00:30 somebody writes 01:00", token("03:00:00"), token("01:00:00"),
			"01:00:00 delete kube-system/token"},
		{"a token may be ended at once", "it is good until 03:00, and at 00:30 somebody writes 00:15", token("03:00:00"), token("00:15:00"),
			"00:30:00 delete kube-system/token"},
		{"a token whose expiration is taken out stays", "it is good until 01:00, and at 00:30 somebody takes that out", token("01:00:00"), token(""),
			"nothing"},
		{"a token that is given an expiration runs out", "it says nothing, and at 00:30 somebody writes 01:00", token(""), token("01:00:00"),
			"01:00:00 delete kube-system/token"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.has(test.first)
				c.at("00:30:00")
				c.has(test.then)
			})
			assert.Equal(t, test.want, seen, "deletions that are asked for: %s", test.situation)
		})
	}
	t.Run("a token that somebody has deleted is forgotten", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(token("01:00:00"))
			c.at("00:30:00")
			assert.NoError(t, c.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "kube-system", "token"))
		})
		assert.Equal(t, "nothing", seen, "deletions that are asked for: a token is good until 01:00, and at 00:30 somebody deletes it")
	})
	t.Run("a name may come to belong to no token", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.has(token("01:00:00"))
			c.at("00:30:00")
			c.has(token("01:00:00", opaque)) // deleted and created again, between two looks
		})
		assert.Equal(t, "nothing", seen, "deletions that are asked for: a token is good until 01:00, and by then the name is an Opaque Secret's")
	})
	t.Run("a token goes by its last word", func(t *testing.T) {
		t.Parallel()
		// The hour until which each token is good, as somebody writes it at
		// half past twelve, half past one and half past two; 0 is no word.
		written := map[string][3]int{}
		for first := range 4 {
			for second := range 4 {
				for third := range 4 {
					written[fmt.Sprintf("token-%d-%d-%d", first, second, third)] = [3]int{first, second, third}
				}
			}
		}
		var c *cluster
		told(t, func(running *cluster) {
			c = running
			for i := range 3 {
				c.at(fmt.Sprintf("%02d:30:00", i))
				synctest.Wait()
				for name, hours := range written {
					c.write(name, hours[i])
				}
			}
		})
		for _, name := range slices.Sorted(maps.Keys(written)) {
			want := byItsLastWord(name, written[name])
			if seen := c.askedFor(name); seen != want {
				assert.Equal(t, want, seen, "deletions that are asked for: at 00:30, 01:30 and 02:30 somebody writes until which hour a token is good: %v, "+
					"where 0 is no word about it", written[name])
				break
			}
		}
	})
}

// write has somebody write until which hour a token is good, if it is there.
func (c *cluster) write(name string, hour int) {
	expiration := ""
	if hour > 0 {
		expiration = fmt.Sprintf("%02d:00:00", hour)
	}
	if c.askedFor(name) == "nothing" {
		c.has(token(expiration, named(name)))
	}
}

func (c *cluster) askedFor(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.asked {
		if strings.HasSuffix(asked, "/"+name) {
			return asked
		}
	}
	return "nothing"
}

// byItsLastWord is what becomes of a token.
func byItsLastWord(name string, hours [3]int) string {
	for i, hour := range hours {
		written, next := i*60+30, (i+1)*60+30
		if goes := max(hour*60, written); hour > 0 && (goes < next || i == 2) {
			return fmt.Sprintf("%02d:%02d:00 delete kube-system/%s", goes/60, goes%60, name)
		}
	}
	return "nothing"
}

func TestADeletionMeansOneSecret(t *testing.T) {
	t.Parallel()
	t.Run("a deletion names the UID that it means", func(t *testing.T) {
		t.Parallel()
		var c *cluster
		told(t, func(running *cluster) {
			c = running
			c.has(token("00:30:00"))
		})
		assert.Equal(t, "uid-1", strings.Join(c.uids, ", "), "the Secret that the API server is asked to delete")
	})
	t.Run("a deletion names the version that was looked at", func(t *testing.T) {
		t.Parallel()
		var c *cluster
		told(t, func(running *cluster) {
			c = running
			c.has(token("00:30:00"))
		})
		assert.Equal(t, "7", strings.Join(c.versions, ", "), "the version that the API server is asked to delete: the cache has version 7")
	})
}

func TestADeletionMayFail(t *testing.T) {
	t.Parallel()
	secrets, busy := corev1.Resource("secrets"), errors.New("the API server is busy")
	for behaviour, refusal := range map[string]error{
		"a deletion that fails is tried again":                  apierrors.NewInternalError(busy),
		"a deletion that is forbidden is tried again":           apierrors.NewForbidden(secrets, "token", errors.New("not now")),
		"a deletion that a policy finds invalid is tried again": apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "token", nil),
		"a token that has changed unseen is looked at again":    apierrors.NewConflict(secrets, "token", errors.New("Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8")),
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
				c.has(token("00:30:00"))
			})
			assert.Equal(t, 4, strings.Count(seen, "delete kube-system/token"),
				"requests until the token is gone: to the first three the API server says: %v. It was asked: %s", refusal, seen)
		})
	}
	t.Run("a token that cannot be deleted keeps no other", func(t *testing.T) {
		t.Parallel()
		seen := told(t, func(c *cluster) {
			c.answers(func(name string) error {
				if name == "held" {
					return apierrors.NewInternalError(busy)
				}
				return nil
			})
			c.has(token("00:30:00", named("held")))
			c.at("01:00:00")
			c.has(token("01:30:00"))
		})
		assert.Contains(t, seen, "01:30:00 delete kube-system/token",
			"deletions that are asked for: that of held has been refused since 00:30, and another token is good until 01:30")
	})
	for _, test := range []struct {
		behaviour, situation string
		refusal              error
	}{
		{"a token that somebody else has deleted is no failure", "the API server says that there is no such Secret", apierrors.NewNotFound(secrets, "token")},
		{"a token that is another by now is no failure", "the API server says that the UID is another", apierrors.NewConflict(secrets, "token", errors.New("Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"))},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, func(c *cluster) {
				c.answers(func(string) error { return test.refusal })
				c.has(token("00:30:00"))
			})
			assert.Equal(t, "00:30:00 delete kube-system/token", seen, "deletions that are asked for: %s", test.situation)
		})
	}
}
