package play

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcm-book/kcm-book/labs/history"
)

// draw draws how large each ReplicaSet has been asked to be since the mark, as a line of bars each, in the order in
// which they were first to have pods. Those that never were are left out.
func (p *Play) draw(*call) error {
	type moment struct {
		seen  time.Time
		sizes map[string]int64
	}
	var moments []moment
	var names []string
	labels, width, largest := map[string]string{}, 0, int64(1)
	err := p.since(func(state history.State, change history.Change) error {
		now := moment{change.Seen, map[string]int64{}}
		for _, set := range state.Objects("replicasets") {
			name := set.GetName()
			size, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
			if size > 0 && labels[name] == "" {
				names, labels[name] = append(names, name), fmt.Sprintf("%s (%s)", name, said(set, "image(self)"))
			}
			now.sizes[name], width, largest = size, max(width, len(labels[name])), max(largest, size)
		}
		moments = append(moments, now)
		return nil
	})
	if err == nil && len(names) == 0 {
		err = errors.New("no ReplicaSet was to have pods")
	}
	if err != nil {
		return err
	}
	const columns = 60
	begin, took := moments[0].seen, moments[len(moments)-1].seen.Sub(moments[0].seen)
	for _, name := range names {
		var line strings.Builder
		var size int64
		for column := range columns {
			until := begin.Add(took * time.Duration(column+1) / columns)
			for _, moment := range moments {
				if !moment.seen.After(until) {
					size = moment.sizes[name]
				}
			}
			line.WriteRune(bar(size, largest))
		}
		p.Narrator.Say(fmt.Sprintf("%-*s %s %d", width, labels[name], line.String(), size))
	}
	p.Narrator.Say(fmt.Sprintf("%-*s 0 s%*s", width, "", columns-3, fmt.Sprintf("%.1f s", took.Seconds())))
	return nil
}

// bar is a block as high as value is of largest, and a dot for nothing.
func bar(value, largest int64) rune {
	blocks := []rune("▁▂▃▄▅▆▇█")
	if value <= 0 {
		return '·'
	}
	return blocks[(value*int64(len(blocks))-1)/largest]
}
