package options

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// mistakes tells which flags validateGeneric complains about, a line for each.
func mistakes(o *KubeControllerManagerOptions) string {
	var flags []string
	for _, err := range o.validateGeneric() {
		flag, _, _ := strings.Cut(err.Error(), ":")
		flags = append(flags, flag)
	}
	slices.Sort(flags)
	return cmp.Or(strings.Join(flags, "\n"), "no mistake")
}

func TestGenericMistakes(t *testing.T) {
	t.Parallel()
	type options = KubeControllerManagerOptions
	burst := func(qps float32, burst int32) func(*options) {
		return func(o *options) {
			o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = qps, burst
		}
	}
	resync := func(d time.Duration) func(*options) {
		return func(o *options) { o.Generic.MinResyncPeriod.Duration = d }
	}
	start := func(d time.Duration) func(*options) {
		return func(o *options) { o.Generic.ControllerStartInterval.Duration = d }
	}
	shutdown := func(d time.Duration) func(*options) { return func(o *options) { o.ControllerShutdownTimeout = d } }
	for _, test := range []struct {
		name  string
		given []func(*options)
		want  []string
	}{
		{"the defaults are right", nil, nil},
		{"a burst of 0 lets no request through", []func(*options){burst(20, 0)}, []string{"--kube-api-burst=0"}},
		{"a negative burst is wrong as well", []func(*options){burst(20, -5)}, []string{"--kube-api-burst=-5"}},
		{"a burst of 1 is enough", []func(*options){burst(20, 1)}, nil},
		{"less than one request per second is a limit too", []func(*options){burst(0.5, 0)}, []string{"--kube-api-burst=0"}},
		{"without a limit the burst does not matter", []func(*options){burst(-1, 0)}, nil},
		{"with a QPS of 0 a burst of 0 is the client's own", []func(*options){burst(0, 0)}, nil},
		{"a negative burst is wrong with a QPS of 0, too", []func(*options){burst(0, -5)}, []string{"--kube-api-burst=-5"}},
		{"a negative resync period is wrong", []func(*options){resync(-time.Second)}, []string{"--min-resync-period=-1s"}},
		{"a nanosecond below 0 is negative", []func(*options){resync(-1)}, []string{"--min-resync-period=-1ns"}},
		{"a negative start interval is wrong", []func(*options){start(-2 * time.Second)}, []string{"--controller-start-interval=-2s"}},
		{"a negative shutdown timeout is wrong", []func(*options){shutdown(-3 * time.Second)}, []string{"--controller-shutdown-timeout=-3s"}},
		{"0 is no mistake where it means at once or without end", []func(*options){resync(0), start(0), shutdown(0)}, nil},
		{"a mistake that follows another is told as well", []func(*options){burst(20, 0), resync(-time.Second)}, []string{"--kube-api-burst=0", "--min-resync-period=-1s"}},
		{"all mistakes are told at once", []func(*options){burst(20, 0), resync(-time.Second), start(-time.Second), shutdown(-time.Second)}, []string{"--controller-shutdown-timeout=-1s", "--controller-start-interval=-1s", "--kube-api-burst=0", "--min-resync-period=-1s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := defaults(t)
			for _, give := range test.given {
				give(o)
			}
			g := o.Generic
			assert.Equal(t, cmp.Or(strings.Join(test.want, "\n"), "no mistake"), mistakes(o), "the flags that errors begin with, sorted, of "+
				"--kube-api-qps=%g --kube-api-burst=%d --min-resync-period=%s --controller-start-interval=%s --controller-shutdown-timeout=%s",
				g.ClientConnection.QPS, g.ClientConnection.Burst, g.MinResyncPeriod.Duration, g.ControllerStartInterval.Duration, o.ControllerShutdownTimeout)
		})
	}
}
