package trustbundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/testutil"
)

// inWords says what a plan is to do.
func (p plan) inWords() string {
	var steps []string
	if p.create != nil {
		steps = append(steps, "create "+short(p.create.Name)+" with "+p.create.Spec.TrustBundle+" of "+p.create.Spec.SignerName)
	}
	if p.update != nil {
		steps = append(steps, "update "+short(p.update.Name)+" to "+p.update.Spec.TrustBundle+" in version "+p.update.ResourceVersion)
	}
	for _, b := range p.deletes {
		steps = append(steps, "delete "+short(b.Name))
	}
	slices.Sort(steps) // the cache has no order
	if steps == nil {
		return "nothing is written"
	}
	return strings.Join(steps, "; ")
}

func TestTheSignerHasOneBundle(t *testing.T) {
	t.Parallel()
	type bundles = []*certificatesv1beta1.ClusterTrustBundle
	const created = "create first with first of kubernetes.io/kube-apiserver-serving"
	for _, test := range []struct {
		behaviour string
		seen      bundles
		want      string
	}{
		{"where there is none it is created", nil, created},
		{"nothing is written where it is", bundles{bundle("first")}, "nothing is written"},
		{"what somebody has written into it is replaced", bundles{bundle("first", holding("another"))}, "update first to first in version 7"},
		{"that of another root CA goes", bundles{bundle("first"), bundle("second")}, "delete second"},
		{"it goes when the right one comes", bundles{bundle("second")}, created + "; delete second"},
		{"one of any other name goes, though its certificates are the same", bundles{bundle("first"), bundle("first", named("mine"))}, "delete mine"},
		{"one that is going already is not deleted again", bundles{bundle("first"), bundle("second", going)}, "nothing is written"},
		{"one that is going is there until it is gone", bundles{bundle("first", going)}, "nothing is written"},
		{"those of other signers stay", bundles{bundle("first"), bundle("second", of("example.com/mine"))}, "nothing is written"},
		{"those of no signer stay", bundles{bundle("first"), bundle("second", of(""))}, "nothing is written"},
		{"labels are the users'", bundles{bundle("first", func(b *certificatesv1beta1.ClusterTrustBundle) { b.Labels = map[string]string{"mine": "m"} })}, "nothing is written"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			var there []string
			for _, b := range test.seen {
				there = append(there, short(b.Name)+" with "+b.Spec.TrustBundle+" of "+b.Spec.SignerName)
			}
			assert.Equal(t, test.want, decide(test.seen, []byte("first")).inWords(), "the root CA is first, and there is: %s", strings.Join(there, ", "))
		})
	}
	t.Run("the cache's own bundle is not changed", func(t *testing.T) {
		t.Parallel()
		seen := bundle("first", holding("another"))
		decide(bundles{seen}, []byte("first"))
		assert.Equal(t, bundle("first", holding("another")), seen)
	})
}

func TestTheNameIsThatOfEveryOtherCluster(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "kubernetes.io:kube-apiserver-serving:ba7816bf8f01cfea414140de", nameFor([]byte("abc")), "the hash is the beginning of the SHA-256 of the certificates")
}

func TestTheRootCAIsPublished(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		there     []runtime.Object
		happens   func(c *cluster)
		want      string
	}{
		{"at once", nil, nothing, "00:00:00 create first with first"},
		{"and not again where it is", []runtime.Object{bundle("first")}, nothing, "nothing"},
		{"and what there was before goes", []runtime.Object{bundle("second")}, nothing, "00:00:00 create first with first; 00:00:00 delete second"},
		{"what somebody adds goes", []runtime.Object{bundle("first")}, func(c *cluster) {
			c.at("00:30:00")
			c.has(bundle("first", named("mine")))
		}, "00:30:00 delete mine"},
		{"what somebody changes is put right", []runtime.Object{bundle("first")}, func(c *cluster) {
			c.at("00:30:00")
			c.has(bundle("first", holding("another")))
		}, "00:30:00 update first with first"},
		{"what somebody deletes comes again", []runtime.Object{bundle("first")}, func(c *cluster) {
			c.at("00:30:00")
			assert.NoError(c.t, c.client.Tracker().Delete(resource, "", nameFor([]byte("first"))))
		}, "00:30:00 create first with first"},
		{"another root CA takes the place of the first", []runtime.Object{bundle("first")}, func(c *cluster) {
			c.at("00:30:00")
			c.follows("second")
		}, "00:30:00 create second with second; 00:30:00 delete first"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(t, both, test.there, test.happens), "writes that are asked for")
		})
	}
	t.Run("a deletion names the UID that it means", func(t *testing.T) {
		t.Parallel()
		var c *cluster
		told(t, both, []runtime.Object{bundle("first"), bundle("second")}, func(running *cluster) { c = running })
		assert.Equal(t, []string{"second"}, c.uids)
	})
}

func TestTheVersionIsOneThatTheAPIServerServes(t *testing.T) {
	t.Parallel()
	former := &certificatesv1alpha1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes.io:kube-apiserver-serving:former", UID: "former"},
		Spec:       certificatesv1alpha1.ClusterTrustBundleSpec{SignerName: "kubernetes.io/kube-apiserver-serving", TrustBundle: "former"},
	}
	changed := toAlpha(bundle("first", holding("another")))
	busy := apierrors.NewServiceUnavailable("not now")
	untilTen := func(err error) func(c *cluster) {
		ten := time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC)
		return func(c *cluster) {
			c.answers(func(verb, _ string) error {
				if verb == "get" && time.Now().Before(ten) {
					return err
				}
				return nil
			})
		}
	}
	notFound := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true)
	for _, test := range []struct {
		behaviour string
		versions  []string
		there     []runtime.Object
		prepare   func(c *cluster)
		want      string
	}{
		{"the newer one of two", both, nil, nothing, "00:00:00 create first with first"},
		{"the older one where there is no other", []string{"v1alpha1"}, []runtime.Object{former}, nothing, "00:00:00 create first with first in v1alpha1; 00:00:00 delete former"},
		{"in which a bundle is put right as well", []string{"v1alpha1"}, []runtime.Object{changed}, nothing, "00:00:00 update first with first in v1alpha1"},
		{"without any nothing is written", nil, nil, nothing, "nothing"},
		{"one that is served later is found", both, nil, untilTen(notFound), "00:17:03 create first with first"},
		{"an API server that does not say is asked again", both, nil, untilTen(busy), "00:17:03 create first with first"},
		{"it is asked again, too, if only the older one is known", []string{"v1alpha1"}, nil, untilTen(busy), "00:17:03 create first with first in v1alpha1"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, in(t, test.versions, test.there, test.prepare, nothing), "writes that are asked for: served are %v", test.versions)
		})
	}
}

func TestWhatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	bundles, busy := certificatesv1beta1.Resource("clustertrustbundles"), errors.New("the API server is busy")
	kind := schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}
	for _, test := range []struct {
		behaviour, verb string
		there           []runtime.Object
		refusal         error
	}{
		{"a creation that fails", "create", nil, apierrors.NewInternalError(busy)},
		{"a creation that is forbidden", "create", nil, apierrors.NewForbidden(bundles, "x", errors.New("user not permitted to attest"))},
		{"a creation that a policy finds invalid", "create", nil, apierrors.NewInvalid(kind, "x", nil)},
		{"a creation of what the cache does not show yet", "create", nil, apierrors.NewAlreadyExists(bundles, "x")},
		{"an update that fails", "update", []runtime.Object{bundle("first", holding("another"))}, apierrors.NewInternalError(busy)},
		{"an update of another version", "update", []runtime.Object{bundle("first", holding("another"))}, apierrors.NewConflict(bundles, "x", errors.New("changed"))},
		{"a deletion that fails", "delete", []runtime.Object{bundle("first"), bundle("second")}, apierrors.NewInternalError(busy)},
		{"a deletion that is forbidden", "delete", []runtime.Object{bundle("first"), bundle("second")}, apierrors.NewForbidden(bundles, "x", busy)},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			refuse := func(verb, _ string) error {
				if verb != test.verb {
					return nil
				}
				if tries++; tries <= 3 {
					return test.refusal
				}
				return nil
			}
			seen := in(t, both, test.there, func(c *cluster) { c.answers(refuse) }, nothing)
			assert.Equal(t, 4, tries, "requests to %s: to the first three the API server says: %v. It was asked: %s", test.verb, test.refusal, seen)
		})
	}
	t.Run("a former bundle stays for as long as the new one cannot be created", func(t *testing.T) {
		t.Parallel()
		seen := in(t, both, []runtime.Object{bundle("second")}, func(c *cluster) {
			c.answers(func(verb, _ string) error { return map[string]error{"create": busy}[verb] })
		}, nothing)
		assert.NotContains(t, seen, "delete")
	})
	t.Run("a bundle that cannot be deleted keeps no other", func(t *testing.T) {
		t.Parallel()
		held := func(verb, name string) error {
			if verb == "delete" && name == "held" {
				return busy
			}
			return nil
		}
		seen := in(t, both, []runtime.Object{bundle("first"), bundle("x", named("held")), bundle("second")}, func(c *cluster) { c.answers(held) }, nothing)
		assert.Contains(t, seen, "00:00:00 delete second")
	})
	t.Run("a bundle that is gone is no failure", func(t *testing.T) {
		t.Parallel()
		gone := func(verb, name string) error {
			if verb == "delete" {
				return apierrors.NewNotFound(bundles, name)
			}
			return nil
		}
		seen := in(t, both, []runtime.Object{bundle("first"), bundle("second")}, func(c *cluster) { c.answers(gone) }, nothing)
		assert.Equal(t, "00:00:00 delete second", seen)
	})
}

func TestARootCAThatIsNoTrustBundleIsSentOnce(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}
	invalid := apierrors.NewInvalid(kind, "x", field.ErrorList{field.Invalid(field.NewPath("spec", "trustBundle"), "<value omitted>", "duplicate trust anchor (indices [0 1])")})
	seen := in(t, both, []runtime.Object{bundle("x", named("former"))}, func(c *cluster) {
		c.answers(func(verb, name string) error {
			if verb == "create" && name == "first" {
				return fmt.Errorf("create: %w", invalid)
			}
			return nil
		})
	}, func(c *cluster) {
		c.at("01:00:00")
		c.follows("second")
	})
	assert.Equal(t, "00:00:00 create first with first; 01:00:00 create second with second; 01:00:00 delete former", seen,
		"writes that are asked for: the first root CA has a certificate twice, and at 01:00 there is another")
}

func TestASyncDeletesAHundredAtMost(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleClientset()
	var todo plan
	for i := range 250 {
		todo.deletes = append(todo.deletes, bundle("x", named(fmt.Sprint(i)), func(b *certificatesv1beta1.ClusterTrustBundle) { b.UID = types.UID(fmt.Sprint(i)) }))
	}
	require.NoError(t, (&Publisher{api: betaAPI(client)}).act(t.Context(), todo), "that they are gone is no failure")
	assert.Len(t, client.Actions(), 100, "what comes after them, another root CA for example, has to wait for so many requests")
}

func TestASyncIsCountedByTheStatusThatTheServerGave(t *testing.T) {
	registerMetrics()
	conflict := apierrors.NewConflict(certificatesv1beta1.Resource("clustertrustbundles"), "x", errors.New("changed"))
	for name, test := range map[string]struct {
		err  error
		code string
	}{
		"success":                   {code: "200"},
		"a conflict":                {err: conflict, code: "409"},
		"a conflict in other words": {err: errors.Join(fmt.Errorf("update: %w", conflict)), code: "409"},
		"no server's word":          {err: errors.New("dial: refused"), code: "500"},
		"a status without a code":   {err: &apierrors.StatusError{}, code: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			count := func() float64 {
				n, err := testutil.GetCounterMetricValue(syncTotal.WithLabelValues(test.code))
				require.NoError(t, err)
				return n
			}
			before := count()
			measure(time.Now(), test.err)
			assert.Equal(t, before+1, count())
		})
	}
}

func TestRunEndsWhileTheAPIServerDoesNotSayWhatItServes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := New(discovering{Clientset: fake.NewClientset(), silent: true}, func() []byte { return []byte("first") })
		ended := make(chan struct{})
		go func() { p.Run(ctx, 1); close(ended) }()
		synctest.Wait()
		stop()
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("Run has not returned when its context had ended: it waits for an answer")
		}
	})
}
