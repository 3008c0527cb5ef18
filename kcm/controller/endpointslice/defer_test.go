package endpointslice

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

func ifReady(endpoint discoveryv1.Endpoint) bool { return *endpoint.Conditions.Ready }

// writtenNow returns what is written at once, and whether anything waits.
func writtenNow(g Group) string {
	plan := g.PackUrgent(ifReady, limit)
	words := inWords(plan)
	if plan.Waits {
		words += " (waits)"
	}
	return words
}

func TestWhatMovesNoTrafficCanWait(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ existing, wanted, want string }{
		"nothing waits where nothing has changed":                      {"1: a b!; 2: c", "a b! c", ""},
		"the first slice does not wait":                                {"", "a!", "create 1"},
		"a new pod that is not ready waits":                            {"1: a b", "a b c!", " (waits)"},
		"it waits, too, if it needs a slice of its own":                {"1: a b c d", "a b c d e!", " (waits)"},
		"a pod that was not ready and has gone stays for now":          {"1: a b!", "a", " (waits)"},
		"a slice whose only pod was not ready stays for now":           {"1: a; 2: b!", "a", " (waits)"},
		"a pod that becomes ready does not wait":                       {"1: a b!", "a b", "update 1: a b"},
		"a pod that is ready no more does not wait":                    {"1: a b", "a b!", "update 1: a b!"},
		"a ready pod that has gone does not wait":                      {"1: a b", "a", "update 1: a"},
		"a new pod that is ready does not wait":                        {"1: a", "a b", "update 1: a b"},
		"what can wait in a slice that is written is written with it":  {"1: a b! c", "a! c", "update 1: a! c"},
		"what can wait in another slice waits":                         {"1: a; 2: b c!", "a! b", "update 1: a! (waits)"},
		"a new one that is not ready goes where there is room":         {"1: a; 2: b", "a! b c!", "update 1: a! c!"},
		"as many of them as there is room for":                         {"1: a b c; 2: d", "a! b c d e! f!", "update 1: a! b c e! (waits)"},
		"a new one that is ready comes first":                          {"1: a b c; 2: d", "a! b c d e! f", "update 1: a! b c f (waits)"},
		"a new one that is not ready goes with one that is":            {"1: a b; 2: d", "a b d e f!", "update 1: a b e f!"},
		"a new one that is not ready has no slice written for itself":  {"1: a b c; 2: d", "a b c d e f!", "update 1: a b c e (waits)"},
		"a pod that has gone makes no room in a slice that is to stay": {"1: a b c d!; 2: e", "a b c e f", "update 2: e f (waits)"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, writtenNow(group(test.existing, test.wanted)), "there is %q, and there is to be %q", test.existing, test.wanted)
		})
	}
	t.Run("a slice whose labels are wrong does not wait", func(t *testing.T) {
		t.Parallel()
		g := group("1: a", "a b!")
		g.Template.Labels = map[string]string{"app": "web", "team": "blue"}
		assert.Equal(t, "update 1: a b!", writtenNow(g))
	})
	t.Run("an address is taken from a pod that has gone when another is ready there", func(t *testing.T) {
		t.Parallel()
		g := group("1: a b!; 2: c", "a c d")
		g.Wanted[2].Addresses = g.Existing[0].Endpoints[1].Addresses
		assert.Equal(t, "update 1: a d", writtenNow(g))
	})
}

func TestWhatCarriesTrafficIsRightAtOnceAndAllIsRightInTheEnd(t *testing.T) {
	t.Parallel()
	some := rapid.SliceOfDistinct(rapid.IntRange(0, 15), rapid.ID[int])
	rapid.Check(t, func(t *rapid.T) {
		var existing []*discoveryv1.EndpointSlice
		next := 0
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			g := group("", "")
			g.Existing = existing
			for _, n := range some.Draw(t, "pods") {
				name := fmt.Sprint(n)
				if !rapid.Bool().Draw(t, "ready") {
					name += "!"
				}
				g.Wanted = append(g.Wanted, pod(name))
			}
			plan := g.PackUrgent(ifReady, limit)
			existing = after(plan, &next)
			require.Equal(t, readyOf(g.Wanted), readyIn(t, existing))
			g.Existing = existing
			require.Equal(t, plan.Waits, inWords(g.Pack(limit)) != "", "something waits, or nothing does")
		}
	})
}

func readyOf(endpoints []discoveryv1.Endpoint) map[string]bool {
	names := map[string]bool{}
	for _, endpoint := range endpoints {
		if ifReady(endpoint) {
			names[endpoint.TargetRef.Name] = true
		}
	}
	return names
}

// readyIn returns the ready pods of slices that have each endpoint once, and no
// more than they may.
func readyIn(t require.TestingT, existing []*discoveryv1.EndpointSlice) map[string]bool {
	var all []discoveryv1.Endpoint
	seen := map[string]bool{}
	for _, slice := range existing {
		require.LessOrEqual(t, len(slice.Endpoints), limit, "endpoints in slice %s", slice.Name)
		for _, endpoint := range slice.Endpoints {
			require.NotContains(t, seen, endpoint.TargetRef.Name, "it is in two slices")
			seen[endpoint.TargetRef.Name] = true
		}
		all = append(all, slice.Endpoints...)
	}
	return readyOf(all)
}

func TestWhoServesCarriesTrafficWhereNobodyIsReady(t *testing.T) {
	t.Parallel()
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	inside := func(s *corev1.Service) {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for what, test := range map[string]struct {
		service *corev1.Service
		wanted  string
		want    bool
	}{
		"another is ready": {service(), "a", false},
		"no other is":      {service(), "a!", true},
		"no other is left": {service(), "", true},
		"another is ready, and requests stay on their node":              {service(local), "a", true},
		"another is ready, and requests from inside stay on their nodes": {service(inside), "a", true},
	} {
		carries := carriesTraffic(test.service, map[string]*Group{"": {Wanted: podsNamed(test.wanted)}})
		going := pod("b!")
		going.Conditions.Serving = new(true)
		assert.Equal(t, test.want, carries(going), what)
		going.Conditions.Serving = new(false)
		assert.False(t, carries(going), "it does not even serve")
	}
}

// named returns a pod with an address of its own.
func named(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := running(name, change...)
	p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	return p
}

func TestAPodThatIsNotReadyIsToldOfAfterASecond(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), named("a", "10.0.0.1"))
	play(t, client, 0, func(ctx context.Context) {
		pods := client.CoreV1().Pods("default")
		before := writes(client)
		_, err := pods.Create(ctx, named("b", "10.0.0.2", notReady), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, before, writes(client), "writes before the second is over")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "a b", there(t, client))
		require.Equal(t, before+1, writes(client), "writes for a pod that is not ready")
	})
}

func TestWhatWaitedIsWrittenWithWhatDoesNotWait(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), named("a", "10.0.0.1"))
	play(t, client, 0, func(ctx context.Context) {
		pods := client.CoreV1().Pods("default")
		before := writes(client)
		_, err := pods.Create(ctx, named("b", "10.0.0.2", notReady), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		_, err = pods.Create(ctx, named("c", "10.0.0.3"), metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, "a b c", there(t, client), "at once, since c is ready")
		require.NoError(t, pods.Delete(ctx, "b", metav1.DeleteOptions{}))
		synctest.Wait()
		require.Equal(t, before+1, writes(client), "writes for both")
		time.Sleep(999 * time.Millisecond) // b was not ready; the second for which it waited first is over meanwhile
		synctest.Wait()
		require.Equal(t, before+1, writes(client), "writes before another second is over")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "a c", there(t, client))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, before+2, writes(client))
	})
}

func TestWhatWaitedSaysSinceWhen(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), named("a", "10.0.0.1"))
	play(t, client, 0, func(ctx context.Context) {
		pods := client.CoreV1().Pods("default")
		since := func() string {
			list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			return list.Items[0].Annotations[corev1.EndpointsLastChangeTriggerTime]
		}
		b := named("b", "10.0.0.2", notReady)
		b.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
		changed := time.Now().UTC().Format(time.RFC3339Nano)
		_, err := pods.Create(ctx, b, metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(servicepods.Patience)
		synctest.Wait()
		require.Equal(t, "a b", there(t, client))
		assert.Equal(t, changed, since())
	})
}
