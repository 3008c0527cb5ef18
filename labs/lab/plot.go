package lab

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/labs/history"
)

// Colours that those with red-green blindness can tell apart, too.
var colours = []color.RGBA{
	{R: 0, G: 114, B: 178, A: 255}, {R: 230, G: 159, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255},
}

// curve is the size of a ReplicaSet over time.
type curve struct {
	name   string
	points []point
}

type point struct {
	at   time.Duration
	size int
}

// DrawReplicaSets draws how large each ReplicaSet was over time: as a line of
// bars each in the terminal, and as build/labs/NN/NAME.svg.
func (s *Step) DrawReplicaSets(recording *history.Recording, name string) {
	s.Helper()
	curves, end := sizes(s.changes(recording))
	const columns = 60
	largest := 1
	for _, c := range curves {
		for _, p := range c.points {
			largest = max(largest, p.size)
		}
	}
	for _, c := range curves {
		var line strings.Builder
		for column := range columns {
			line.WriteRune(bar(c.at(end*time.Duration(column)/columns), largest))
		}
		s.Say("%-24s %s %d", c.name, line.String(), c.at(end))
	}
	s.Say("%-24s 0 s%*s", "", columns-3, fmt.Sprintf("%.1f s", end.Seconds()))
	path := filepath.Join(s.lab.logs, name+".svg")
	require.NoError(s, draw(curves, end, path), "draw %s", path)
	relative, err := filepath.Rel(s.lab.root, path)
	require.NoError(s, err)
	s.Say("drawn in %s", relative)
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
func sizes(changes []history.Change) ([]*curve, time.Duration) {
	var curves []*curve
	byUID := map[types.UID]*curve{}
	var begin time.Time
	var end time.Duration
	for _, change := range changes {
		if begin.IsZero() {
			begin = change.Seen
		}
		at := change.Seen.Sub(begin)
		end = max(end, at)
		if change.Resource != "replicasets" {
			continue
		}
		rs := as[appsv1.ReplicaSet](change.Object)
		c := byUID[rs.UID]
		if c == nil {
			c = &curve{name: fmt.Sprintf("%s (%s)", rs.Name, rs.Spec.Template.Spec.Containers[0].Image)}
			byUID[rs.UID] = c
			curves = append(curves, c)
		}
		size := int(*rs.Spec.Replicas)
		if change.Type == "DELETED" {
			size = 0
		}
		if n := len(c.points); n == 0 || c.points[n-1].size != size {
			c.points = append(c.points, point{at, size})
		}
	}
	return curves, end
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

func draw(curves []*curve, end time.Duration, path string) error {
	p := plot.New()
	p.X.Label.Text = "seconds"
	p.Y.Label.Text = "pods asked for"
	p.Y.Min = 0
	p.Legend.Top = true
	for i, c := range curves {
		var points plotter.XYs
		for _, p := range append(c.points, point{end, c.at(end)}) {
			points = append(points, plotter.XY{X: p.at.Seconds(), Y: float64(p.size)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.StepStyle = plotter.PostStep
		line.Width = vg.Points(2)
		line.Color = colours[i%len(colours)]
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	return p.Save(18*vg.Centimeter, 8*vg.Centimeter, path)
}
