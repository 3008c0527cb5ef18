package options

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/feature"
	componentbaseconfig "k8s.io/component-base/config"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// electionOf returns the settings of an election with these durations and
// otherwise the defaults.
func electionOf(lease, renew, retry time.Duration) *componentbaseconfig.LeaderElectionConfiguration {
	e := &componentbaseconfig.LeaderElectionConfiguration{LeaderElect: true,
		ResourceLock: "leases", ResourceNamespace: "kube-system", ResourceName: "kube-controller-manager"}
	e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration = lease, renew, retry
	return e
}

// verdict says which flags are refused. It does not go by the reasons, nor by
// their order.
func verdict(e *componentbaseconfig.LeaderElectionConfiguration) string {
	var refused []string
	for _, err := range validateLeaderElection(e) {
		flag, _, _ := strings.Cut(err.Error(), ":")
		flag, _, _ = strings.Cut(flag, " and ")
		refused = append(refused, strings.TrimPrefix(flag, "--leader-elect-"))
	}
	if len(refused) == 0 {
		return "accepted"
	}
	slices.Sort(refused)
	return "refused: " + strings.Join(refused, ", ")
}

func TestDurationsOfAnElection(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for behaviour, test := range map[string]struct {
		lease, renew, retry time.Duration
		verdict             string
	}{
		"the default times are accepted":                                    {15 * time.Second, 10 * time.Second, 2 * time.Second, "accepted"},
		"a Lease of one second is long enough":                              {time.Second, 900 * ms, 500 * ms, "accepted"},
		"a Lease of less than a second is refused":                          {999 * ms, 500 * ms, 100 * ms, "refused: lease-duration=999ms, renew-deadline=500ms"},
		"a renew deadline as long as the Lease is refused":                  {15 * time.Second, 15 * time.Second, 2 * time.Second, "refused: renew-deadline=15s"},
		"a renew deadline longer than the Lease is refused":                 {15 * time.Second, 20 * time.Second, 2 * time.Second, "refused: renew-deadline=20s"},
		"of the Lease only whole seconds count":                             {10900 * ms, 10500 * ms, 2 * time.Second, "refused: renew-deadline=10.5s"},
		"a renew deadline below the whole seconds of the Lease is accepted": {10900 * ms, 9900 * ms, 2 * time.Second, "accepted"},
		"a pause that, times 1.2, is longer than the deadline is refused":   {15 * time.Second, 10 * time.Second, 9 * time.Second, "refused: retry-period=9s"},
		"a pause that, times 1.2, is as long as the deadline is refused":    {15 * time.Second, 6 * time.Second, 5 * time.Second, "refused: retry-period=5s"},
		"a pause that, times 1.2, is shorter than the deadline will do":     {15 * time.Second, 6001 * ms, 5 * time.Second, "accepted"},
		"no pause at all is refused":                                        {15 * time.Second, 10 * time.Second, 0, "refused: retry-period=0s"},
		"the shortest pause there is will do":                               {15 * time.Second, 10 * time.Second, 1, "accepted"},
		"a pause below zero is refused":                                     {15 * time.Second, 10 * time.Second, -time.Second, "refused: retry-period=-1s"},
		"all that is wrong is told at once":                                 {500 * ms, 10 * time.Second, 30 * time.Second, "refused: lease-duration=500ms, renew-deadline=10s, retry-period=30s"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.verdict, verdict(electionOf(test.lease, test.renew, test.retry)),
				"a Lease of %s, a renew deadline of %s, a retry period of %s", test.lease, test.renew, test.retry)
		})
	}
}

func TestWhatElseAnElectionNeeds(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		change  func(*componentbaseconfig.LeaderElectionConfiguration)
		verdict string
	}{
		"a lock that is no Lease is refused": {func(e *componentbaseconfig.LeaderElectionConfiguration) { e.ResourceLock = "endpoints" }, "refused: resource-lock=endpoints"},
		"a Lease without a name is refused":  {func(e *componentbaseconfig.LeaderElectionConfiguration) { e.ResourceName = "" }, "refused: resource-name"},
		"a Lease in no namespace is refused": {func(e *componentbaseconfig.LeaderElectionConfiguration) { e.ResourceNamespace = "" }, "refused: resource-name"},
		"without an election nothing is refused": {func(e *componentbaseconfig.LeaderElectionConfiguration) {
			*e = componentbaseconfig.LeaderElectionConfiguration{}
		}, "accepted"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			e := electionOf(15*time.Second, 10*time.Second, 2*time.Second)
			test.change(e)
			assert.Equal(t, test.verdict, verdict(e), "--leader-elect=%t with the default times, --leader-elect-resource-lock=%q "+
				"--leader-elect-resource-namespace=%q --leader-elect-resource-name=%q", e.LeaderElect, e.ResourceLock, e.ResourceNamespace, e.ResourceName)
		})
	}
}

// The gates belong to the process, so this test runs while no other does.
func TestTheGateOfCoordinatedElection(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.DefaultFeatureGate, features.CoordinatedLeaderElection, true)
	t.Run("an election in which the API server chooses is refused", func(t *testing.T) {
		assert.Equal(t, "refused: --feature-gates=CoordinatedLeaderElection=true", verdict(electionOf(15*time.Second, 10*time.Second, 2*time.Second)),
			"the gate CoordinatedLeaderElection is on")
	})
	t.Run("the gate does not matter without an election", func(t *testing.T) {
		e := electionOf(15*time.Second, 10*time.Second, 2*time.Second)
		e.LeaderElect = false
		assert.Equal(t, "accepted", verdict(e), "the gate CoordinatedLeaderElection is on, and --leader-elect is off")
	})
}
