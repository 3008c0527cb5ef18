package ttl

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestTheStepOfSoManyNodes(t *testing.T) {
	t.Parallel()
	seconds := []string{"0", "15", "30", "60", "300"}
	for _, test := range []struct {
		nodes int
		want  string // from each of the steps
	}{
		{0, "0 0 0 0 0"},
		{89, "0 0 0 0 0"},
		{90, "0 15 15 15 15"},
		{100, "0 15 15 15 15"},
		{101, "15 15 15 15 15"},
		{449, "15 15 15 15 15"},
		{450, "15 15 30 30 30"},
		{500, "15 15 30 30 30"},
		{501, "30 30 30 30 30"},
		{899, "30 30 30 30 30"},
		{900, "30 30 30 60 60"},
		{1000, "30 30 30 60 60"},
		{1001, "60 60 60 60 60"},
		{1799, "60 60 60 60 60"},
		{1800, "60 60 60 60 300"},
		{2000, "60 60 60 60 300"},
		{2001, "300 300 300 300 300"},
		{1 << 40, "300 300 300 300 300"},
	} {
		var from []string
		for current := range seconds {
			from = append(from, steps[stepFor(test.nodes, current)].seconds)
		}
		assert.Equal(t, test.want, strings.Join(from, " "),
			"what %d nodes are told, that were told %v before", test.nodes, seconds)
	}
}

func TestTheStepThatTheNodesHaveBeenToldOf(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		nodes []*corev1.Node
		want  string
	}{
		"no node":                        {nil, "0"},
		"nothing":                        {some(0, 5, ""), "0"},
		"all the same":                   {some(0, 5, "60"), "60"},
		"most of them":                   {append(some(0, 3, "0"), some(3, 7, "15")...), "15"},
		"those that say nothing":         {append(some(0, 3, ""), some(3, 4, "30")...), "30"},
		"those that say what is no step": {append(some(0, 3, "7"), some(3, 4, "300")...), "300"},
		"as many of the one and another": {append(some(0, 3, "30"), some(3, 6, "15")...), "15"},
	} {
		assert.Equal(t, test.want, steps[stepOf(test.nodes)].seconds, what)
	}
}

func TestAHeartbeatWakesNobody(t *testing.T) {
	in(t, some(0, 3, "0"), func(c *cluster) {
		var looks atomic.Int32
		c.made = func(loop *Controller) {
			sync := loop.loop.Sync
			loop.loop.Sync = func(ctx context.Context, key cache.ObjectName) error {
				looks.Add(1)
				return sync(ctx, key)
			}
		}
		c.runs(func() {
			c.after(time.Minute)
			looks.Store(0)
			c.heartbeats("node-1")
			assert.Equal(t, "nothing", c.after(time.Hour))
			assert.Zero(t, looks.Load())
		})
	})
}
