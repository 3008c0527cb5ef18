package faults

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/proxy"
)

// server is an API server in memory: it keeps the requests and gives answers.
type server struct {
	asked  []*http.Request
	answer string
}

func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, request)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(s.answer)), Request: request}, nil
}

func trafficWith(fault string, s *server) (*traffic, proxy.RoundTripper) {
	f, err := parseFault(fault)
	if err != nil {
		panic(err) // the test is wrong
	}
	t := newTraffic("n", map[string]bool{"/api/v1/pods": true, "/apis/apps/v1/replicasets": true}, f, func(Fault) {})
	return t, t.wrap(s.RoundTrip)
}

func request(method, target string) *http.Request { return httptest.NewRequest(method, target, nil) }

func TestAManagerSeesOneNamespaceAlone(t *testing.T) {
	t.Parallel()
	s := &server{}
	_, do := trafficWith("none", s)
	for _, target := range []string{
		"/apis/apps/v1/replicasets?limit=500", "/api/v1/namespaces?limit=500", "/api/v1/nodes",
		"/api/v1/namespaces/kube-system/serviceaccounts/a",
	} {
		_, err := do(request(http.MethodGet, target))
		require.NoError(t, err)
	}
	var seen []string
	for _, asked := range s.asked {
		seen = append(seen, asked.URL.RequestURI())
	}
	require.Equal(t, []string{
		"/apis/apps/v1/namespaces/n/replicasets?limit=500",
		"/api/v1/namespaces?limit=500&fieldSelector=metadata.name%3Dn",
		"/api/v1/nodes", "/api/v1/namespaces/kube-system/serviceaccounts/a",
	}, seen)
}

func TestAManagerSeesOfWhatIsInNoNamespaceWhatIsLabelledAndSomeResourcesElsewhere(t *testing.T) {
	t.Parallel()
	s := &server{}
	traffic, do := trafficWith("none", s)
	traffic.labelled = []string{"nodes", "clusterroles"}
	traffic.elsewhere = map[string]string{"pods": "kube-system", "configmaps": "kube-public"}
	for _, target := range []string{
		"/api/v1/nodes?watch=true", "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=500",
		"/api/v1/pods?limit=500", "/api/v1/namespaces/kube-public/configmaps?watch=true",
	} {
		_, err := do(request(http.MethodGet, target))
		require.NoError(t, err)
	}
	var seen []string
	for _, asked := range s.asked {
		seen = append(seen, asked.URL.RequestURI())
	}
	require.Equal(t, []string{
		"/api/v1/nodes?watch=true&labelSelector=topology.kubernetes.io/zone%3Dn",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=500&labelSelector=topology.kubernetes.io/zone%3Dn",
		"/api/v1/namespaces/kube-system/pods?limit=500", "/api/v1/namespaces/kube-public/configmaps?watch=true",
	}, seen)
	require.True(t, traffic.watches([]string{"nodes", "configmaps"}))
	for _, target := range []string{
		"/api/v1/nodes/n-1/status", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a",
		"/api/v1/namespaces/kube-public/configmaps/cluster-info", "/api/v1/namespaces/n/configmaps/a",
		"/api/v1/namespaces/kube-system/serviceaccounts/a", "/api/v1/namespaces/n/secrets/a",
	} {
		_, err := do(request(http.MethodPatch, target))
		require.NoError(t, err)
	}
	writes, _, _ := traffic.seen()
	var what []string
	for _, write := range writes {
		what = append(what, write.What)
	}
	require.Equal(t, []string{"PATCH nodes/n-1/status", "PATCH clusterroles/a", "PATCH configmaps/cluster-info",
		"PATCH secrets/a"}, what)
}

func TestOnlyWritesToTheNamespaceCountAndNoEventsOrLeases(t *testing.T) {
	t.Parallel()
	traffic, do := trafficWith("none", &server{})
	for _, target := range []string{
		"/api/v1/namespaces/n/pods", "/api/v1/namespaces/n/events", "/apis/events.k8s.io/v1/namespaces/n/events/e",
		"/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "/api/v1/namespaces/other/pods",
		"/api/v1/namespaces/n/finalize",
		"/api/v1/namespaces/n/serviceaccounts/a/token",
	} {
		_, err := do(request(http.MethodPost, target))
		require.NoError(t, err)
	}
	writes, _, _ := traffic.seen()
	require.Len(t, writes, 2)
	require.Equal(t, "POST pods", writes[0].What)
	require.Equal(t, "POST finalize", writes[1].What)
}

func TestAtItsNumberAWriteIsRefusedLostOrDoneAndFollowedByAStrike(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault   string
		arrives bool
		code    int // 0 is no answer
		strikes int
	}{
		{"refuse-409/2", false, 409, 0}, {"refuse-429/2", false, 429, 0}, {"refuse-500/2", false, 500, 0},
		{"refuse-504/2", false, 504, 0},
		{"lose/2", true, 0, 0}, {"stop/2", true, 0, 1}, {"older-pods/2", true, 0, 1},
		{"freeze/2", true, 200, 1}, {"etcd/2", true, 200, 1},
	} {
		s := &server{answer: `{"metadata": {"resourceVersion": "7"}}`}
		traffic, do := trafficWith(test.fault, s)
		strikes := 0
		traffic.strike = func(Fault) { strikes++ }
		for number := 1; number <= 3; number++ {
			response, err := do(request(http.MethodPost, "/api/v1/namespaces/n/pods"))
			switch {
			case number != 2:
				require.NoError(t, err, test.fault)
				require.Equal(t, 200, response.StatusCode, test.fault)
			case test.code == 0:
				require.True(t, errors.Is(err, proxy.ErrBroken), test.fault)
			default:
				require.NoError(t, err, test.fault)
				require.Equal(t, test.code, response.StatusCode, test.fault)
			}
		}
		arrived := map[bool]int{true: 3, false: 2}[test.arrives]
		require.Len(t, s.asked, arrived, test.fault)
		require.Equal(t, test.strikes, strikes, test.fault)
		_, _, struck := traffic.seen()
		require.Equal(t, test.fault == "older-pods/2", struck.at.IsZero(), "%s: a list has yet to be older", test.fault)
	}
}

func TestAPolicyRefusesAWriteAndAllLikeItUntilItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		traffic, do := trafficWith("policy-422/2", &server{answer: "{}"})
		code := func(method, name string) int {
			response, err := do(request(method, "/api/v1/namespaces/n/pods/"+name))
			require.NoError(t, err)
			return response.StatusCode
		}
		require.Equal(t, 200, code(http.MethodPatch, "a"), "the first write")
		require.Equal(t, 422, code(http.MethodPatch, "b"), "the second")
		require.Equal(t, 200, code(http.MethodDelete, "b"), "another write of the same pod")
		require.Equal(t, 200, code(http.MethodPatch, "c"), "the same of another pod")
		require.Equal(t, 422, code(http.MethodPatch, "b"), "the second again")
		time.Sleep(refusal)
		require.Equal(t, 200, code(http.MethodPatch, "b"), "the policy has gone")
		_, _, struck := traffic.seen()
		require.Equal(t, refusal, struck.again.Sub(struck.at), "when it was tried again without being refused")
	})
}

const threeEvents = `{"type":"ADDED","object":{}}
{"type":"BOOKMARK","object":{}}
{"type":"MODIFIED","object":{}}
{"type":"DELETED","object":{}}
`

func TestAnEventIsLateWithAllThatFollowsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, do := trafficWith("late-pods/2", &server{answer: threeEvents})
		response, err := do(request(http.MethodGet, "/api/v1/pods?watch=true"))
		require.NoError(t, err)
		begin, buffer := time.Now(), make([]byte, 1000)
		var at []time.Duration
		for range 4 {
			_, err := response.Body.Read(buffer)
			require.NoError(t, err)
			at = append(at, time.Since(begin))
		}
		require.Equal(t, []time.Duration{0, 0, lateness, lateness}, at)
	})
}

func TestAfterAMissedEventTheWatchEndsAndCannotGoOnWhereItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, do := trafficWith("miss-pods/2", &server{answer: threeEvents})
		response, err := do(request(http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=5"))
		require.NoError(t, err)
		seen, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(string(seen), "\n"), "the first event, and a bookmark")

		begin := time.Now()
		again, err := do(request(http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=5"))
		require.NoError(t, err)
		require.Equal(t, http.StatusGone, again.StatusCode)
		require.Equal(t, gap, time.Since(begin))
		again, err = do(request(http.MethodGet, "/api/v1/pods?watch=true&sendInitialEvents=true"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, again.StatusCode)
	})
}

func TestAfterARestartAListIsOlderWhereItMayBe(t *testing.T) {
	t.Parallel()
	s := &server{answer: `{"metadata": {"resourceVersion": "7"}}`}
	_, do := trafficWith("older-pods/1", s)
	_, err := do(request(http.MethodPost, "/api/v1/namespaces/n/pods"))
	require.ErrorIs(t, err, proxy.ErrBroken)

	streamed, err := do(request(http.MethodGet, "/api/v1/pods?watch=true&sendInitialEvents=true"))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, streamed.StatusCode, "an API server that has no streamed lists")
	for _, test := range []struct{ asked, version string }{
		{"/apis/apps/v1/replicasets?resourceVersion=0", "0"},
		{"/api/v1/pods?resourceVersion=", ""}, // which asks for the newest
		{"/api/v1/pods?resourceVersion=0", "6"},
		{"/api/v1/pods?resourceVersion=0", "0"},
	} {
		_, err := do(request(http.MethodGet, test.asked))
		require.NoError(t, err)
		require.Equal(t, test.version, s.asked[len(s.asked)-1].URL.Query().Get("resourceVersion"), test.asked)
	}
}
