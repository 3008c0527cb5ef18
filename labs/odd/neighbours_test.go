package odd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kcm-book/kcm-book/labs/canary"
)

func TestACanaryMayWaitTwoSecondsLongerThanInAQuietCluster(t *testing.T) {
	t.Parallel()
	of := func(period time.Duration, attacked ...time.Duration) Damage {
		c := canary.Canary{Does: "a Job gets its pod", Period: period}
		quiet := []time.Duration{time.Second, 3 * time.Second, time.Second}
		return Damage{Stored: 1, Felt: []Felt{{Canary: c, Quiet: quiet, Attacked: attacked}}}
	}
	assert.Empty(t, of(0, 5*time.Second, time.Second).Wrong())
	late := of(0, 5100*time.Millisecond, time.Second, time.Second)
	assert.Equal(t, []string{"a Job gets its pod: 1.0 → 1.0, 5.1 s"}, late.Wrong())
	assert.Empty(t, of(20*time.Second, 22*time.Second).Wrong(), "its loop looks every 20 seconds")
	assert.NotEmpty(t, of(20*time.Second, 23*time.Second).Wrong())
	assert.Empty(t, of(0).Wrong(), "its turn has not come")
}

func TestTheWorstCanaryIsTheOneThatWasDelayedMost(t *testing.T) {
	t.Parallel()
	felt := func(loop, does string, quiet, attacked time.Duration) Felt {
		c := canary.Canary{Loop: loop, Does: does}
		return Felt{Canary: c, Quiet: []time.Duration{quiet}, Attacked: []time.Duration{attacked}}
	}
	d := Damage{Attack: Attack{Loops: []string{"job-controller"}}, Felt: []Felt{
		felt("job-controller", "always slow", 9*time.Second, 9*time.Second),
		felt("job-controller", "slow", time.Second, 2*time.Second),
		felt("job-controller", "fast", 0, 1),
		felt("endpoints-controller", "slow by chance", time.Second, 3*time.Second),
	}}
	assert.Equal(t, "slow", d.Worst().Does)
	d.Felt = append(d.Felt, felt("endpoints-controller", "much slower", 0, 3*time.Second))
	assert.Equal(t, "much slower", d.Worst().Does, "it was delayed too much, so it is told")
}

func TestTheManagerMayGrowWithWhatTheAttackerHasStored(t *testing.T) {
	t.Parallel()
	assert.Empty(t, Damage{Stored: 1 << 20, Grown: 60 << 20}.Wrong())
	assert.Equal(t, []string{"it grew by 61 MiB, and may by 60"}, Damage{Stored: 1 << 20, Grown: 61 << 20}.Wrong())
	assert.Equal(t, []string{"it has ended"}, Damage{Stored: 1, Ended: true}.Wrong())
}

func TestWhatTheAPIServerRefusesIsNoAttack(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/endpoints") {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
	}))
	defer server.Close()
	a := &attacker{ctx: t.Context(), client: server.Client(), server: server.URL}
	a.create("endpoints", "a", manifest{})
	assert.EqualValues(t, 1, a.refused.Load())
	assert.EqualValues(t, 0, a.stored.Load())
	assert.Equal(t, "POST /api/v1/namespaces/attacker/endpoints", a.why.Load())
	assert.Equal(t, []string{"the API server has refused it all, so it was no attack: 403"}, Damage{Why: "403"}.Wrong())
	a.create("apps/v1/deployments", "a", manifest{})
	a.patch("apps/v1/deployments", "a", `{}`)
	assert.EqualValues(t, 3, a.sent.Load())
	created := "POST /apis/apps/v1/namespaces/attacker/deployments"
	assert.EqualValues(t, len(created), a.stored.Load(), "a change stores no more")
}

func TestEachLoopThatHasACanaryIsAttacked(t *testing.T) {
	t.Parallel()
	for _, c := range canary.All {
		if c.Loop == "token-cleaner-controller" {
			continue // it looks at Secrets of kube-system only
		}
		assert.True(t, slices.ContainsFunc(Attacks, func(a Attack) bool { return slices.Contains(a.Loops, c.Loop) }), c.Loop)
	}
	for _, a := range Attacks {
		for _, loop := range a.Loops {
			assert.True(t, canary.Has(loop), "%s: %s", a.Name, loop)
		}
	}
}
