package options

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryFlagIsThatOfTheOriginal(t *testing.T) {
	t.Parallel()
	o := defaults(t)
	groups := o.Flags(known)
	assert.Len(t, groups.FlagSets, len(groups.Order), "a group that is not in the order is not parsed")

	for _, group := range ReadOriginal().Groups {
		var here, there []originalFlag
		groups.FlagSet(group.Name).VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "crash-on-panic" {
				return // it is kcm's own
			}
			here = append(here, originalFlag{Name: flag.Name, Type: flag.Value.Type(), Default: flag.DefValue, Hidden: flag.Hidden})
		})
		for _, flag := range group.Flags {
			flag.Min, flag.Max, flag.OneOf = "", "", nil
			there = append(there, flag)
		}
		assert.ElementsMatch(t, there, here, "the flags of %s: the original's, then kcm's", group.Name)
	}
}

func TestAFlagWithoutEffectIsAcceptedWithItsDefaultAndSaysThatItHasNone(t *testing.T) {
	t.Parallel()
	_, fs, err := parse(t)
	require.NoError(t, err)
	var args []string
	fs.VisitAll(func(flag *pflag.Flag) {
		if isWithoutEffect(flag) {
			args = append(args, "--"+flag.Name+"="+flag.DefValue)
			assert.Contains(t, flag.Usage, "no effect yet", flag.Name)
		}
	})
	assert.Contains(t, args, "--node-sync-period=0s", "hidden, and accepted")
	assert.NoError(t, mustParse(t, args...).Validate(known))
}

func TestAFlagWithoutEffectIsCheckedInItsValue(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--concurrent-job-syncs=many":                    "invalid",
		"--node-eviction-rate=fast":                      "invalid",
		"--horizontal-pod-autoscaler-tolerance=a-little": "invalid",
		"--namespace-sync-period=5":                      "invalid",
		"--enable-garbage-collector=perhaps":             "invalid",
		"--concurrent-job-syncs=0":                       "--concurrent-job-syncs=0: must be at least 1",
		"--concurrent-service-endpoint-syncs=51":         "--concurrent-service-endpoint-syncs=51: must be at most 50",
		"--attach-detach-reconcile-sync-period=999ms":    "--attach-detach-reconcile-sync-period=999ms: must be at least 1s",
		"--attach-detach-reconcile-sync-period=1s":       "",
		"--concurrent-service-endpoint-syncs=50":         "",
	} {
		o, _, err := parse(t, arg)
		if err == nil {
			err = o.Validate(known)
		}
		if want == "" {
			assert.NoError(t, err, arg)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}
