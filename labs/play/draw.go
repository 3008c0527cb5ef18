package play

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/labs/history"
)

// curve is the size of a ReplicaSet over time.
type curve struct {
	name   string
	points []point
}

type point struct {
	at   time.Duration
	size int
}

// draw draws how large each ReplicaSet has been since the mark, as a line of bars
// each. Those that were to have no pods all the time are left out.
func (p *Play) draw(*call) error {
	curves, end, err := p.sizes()
	if err != nil {
		return err
	}
	if len(curves) == 0 {
		return errors.New("no ReplicaSet was to have pods")
	}
	const columns = 60
	largest, width := 1, 0
	for _, each := range curves {
		width = max(width, len(each.name))
		for _, point := range each.points {
			largest = max(largest, point.size)
		}
	}
	for _, each := range curves {
		var line strings.Builder
		for column := range columns {
			line.WriteRune(bar(each.at(end*time.Duration(column+1)/columns), largest))
		}
		p.Narrator.Say(fmt.Sprintf("%-*s %s %d", width, each.name, line.String(), each.at(end)))
	}
	p.Narrator.Say(fmt.Sprintf("%-*s 0 s%*s", width, "", columns-3, fmt.Sprintf("%.1f s", end.Seconds())))
	return nil
}

// bar is a block as high as value is of largest, and a dot for nothing.
func bar(value, largest int) rune {
	blocks := []rune("▁▂▃▄▅▆▇█")
	if value <= 0 {
		return '·'
	}
	return blocks[(value*len(blocks)-1)/largest]
}

// sizes returns what each ReplicaSet was asked to be over time, in the order in
// which they came, and when the last change was.
func (p *Play) sizes() ([]*curve, time.Duration, error) {
	var curves []*curve
	byUID := map[types.UID]*curve{}
	var begin time.Time
	var end time.Duration
	err := p.since(func(_ history.State, change history.Change) error {
		if begin.IsZero() {
			begin = change.Seen
		}
		at := change.Seen.Sub(begin)
		end = max(end, at)
		if change.Resource != "replicasets" {
			return nil
		}
		each := byUID[change.Object.GetUID()]
		if each == nil {
			each = &curve{name: fmt.Sprintf("%s (%s)", change.Object.GetName(), firstImage(change.Object.Object))}
			byUID[change.Object.GetUID()] = each
			curves = append(curves, each)
		}
		replicas, _, _ := unstructured.NestedInt64(change.Object.Object, "spec", "replicas")
		size := int(replicas)
		if change.Type == watch.Deleted {
			size = 0
		}
		if n := len(each.points); n == 0 || each.points[n-1].size != size {
			each.points = append(each.points, point{at, size})
		}
		return nil
	})
	curves = slices.DeleteFunc(curves, func(c *curve) bool {
		return !slices.ContainsFunc(c.points, func(p point) bool { return p.size > 0 })
	})
	return curves, end, err
}

func (c *curve) at(moment time.Duration) int {
	i, _ := slices.BinarySearchFunc(c.points, moment, func(p point, moment time.Duration) int {
		if p.at <= moment {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return c.points[i-1].size
}
