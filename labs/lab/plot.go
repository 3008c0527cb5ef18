package lab

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/labs/history"
)

// Colours that those with red-green blindness can tell apart, too.
var colours = []color.RGBA{
	{R: 0, G: 114, B: 178, A: 255}, {R: 230, G: 159, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255},
	{R: 204, G: 121, B: 167, A: 255}, {R: 213, G: 94, B: 0, A: 255}, {R: 86, G: 180, B: 233, A: 255},
}

var (
	black = color.Gray{Y: 40}
	grey  = color.Gray{Y: 150}
	pale  = color.Gray{Y: 230}
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

// DrawReplicaSets draws how large each ReplicaSet was over time: as a line of
// bars each in the terminal, and as build/labs/NN/NAME.svg. Those that were to
// have no pods all the time are left out.
func (s *Step) DrawReplicaSets(recording *history.Recording, name string) {
	s.Helper()
	curves, end := sizes(s.changes(recording))
	const columns = 60
	largest, width := 1, 0
	for _, c := range curves {
		width = max(width, len(c.name))
		for _, p := range c.points {
			largest = max(largest, p.size)
		}
	}
	for _, c := range curves {
		var line strings.Builder
		for column := range columns {
			line.WriteRune(bar(c.at(end*time.Duration(column+1)/columns), largest))
		}
		s.Say("%-*s %s %d", width, c.name, line.String(), c.at(end))
	}
	s.Say("%-*s 0 s%*s", width, "", columns-3, fmt.Sprintf("%.1f s", end.Seconds()))
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
		rs := history.As[appsv1.ReplicaSet](change.Object)
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
	curves = slices.DeleteFunc(curves, func(c *curve) bool {
		return !slices.ContainsFunc(c.points, func(p point) bool { return p.size > 0 })
	})
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

// spans returns the points of the curve cut into the times at which it was not
// zero, each with its rise from zero and its fall.
func (c *curve) spans(end time.Duration) []plotter.XYs {
	var all []plotter.XYs
	before := 0
	for _, p := range append(slices.Clone(c.points), point{end, c.at(end)}) {
		at := plotter.XY{X: p.at.Seconds(), Y: float64(p.size)}
		switch {
		case before > 0:
			all[len(all)-1] = append(all[len(all)-1], at)
		case p.size > 0:
			all = append(all, plotter.XYs{{X: at.X}, at})
		}
		before = p.size
	}
	return all
}

// together returns how large all ReplicaSets were over time.
func together(curves []*curve) *curve {
	var moments []time.Duration
	for _, c := range curves {
		for _, p := range c.points {
			moments = append(moments, p.at)
		}
	}
	slices.Sort(moments)
	sum := &curve{name: "together"}
	for _, moment := range slices.Compact(moments) {
		size := 0
		for _, c := range curves {
			size += c.at(moment)
		}
		sum.points = append(sum.points, point{moment, size})
	}
	return sum
}

// draw draws the curves as an SVG with the legend beside them.
func draw(curves []*curve, end time.Duration, path string) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "seconds", "pods asked for"
	p.X.Min, p.Y.Min = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = wholeNumbers(20), wholeNumbers(8)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, pale
	p.Add(grid)

	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(3)
	add := func(c *curve, style vgdraw.LineStyle) error {
		for i, span := range c.spans(end) {
			line, err := plotter.NewLine(span)
			if err != nil {
				return err
			}
			line.StepStyle = plotter.PostStep
			line.LineStyle = style
			p.Add(line)
			if i == 0 {
				legend.Add(c.name, line)
			}
		}
		return nil
	}
	if err := add(together(curves), vgdraw.LineStyle{Color: grey, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(3), vg.Points(2)}}); err != nil {
		return err
	}
	for i, c := range curves {
		if err := add(c, vgdraw.LineStyle{Color: colours[i%len(colours)], Width: vg.Points(2)}); err != nil {
			return err
		}
	}
	p.X.Max, p.Y.Max = end.Seconds(), p.Y.Max*1.04
	for _, style := range []*text.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle} {
		style.Font.Variant, style.Font.Size, style.Color = "Sans", vg.Points(10), black
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = grey, grey
	}

	const width, height, beside, margin = 22 * vg.Centimeter, 8 * vg.Centimeter, 6.5 * vg.Centimeter, 3 * vg.Millimeter
	image := vgsvg.New(width, height)
	all := vgdraw.New(image)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.BackgroundColor = nil
	p.Draw(vgdraw.Crop(all, margin, -beside, margin, -margin))
	legend.Draw(vgdraw.Crop(all, width-beside+margin, -margin, margin, -margin))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := image.WriteTo(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// wholeNumbers marks an axis at whole numbers, at so many of them at most.
type wholeNumbers int

func (most wholeNumbers) Ticks(least, greatest float64) []plot.Tick {
	step := 1
	for _, factor := range []int{2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if (greatest-least)/float64(step) > float64(most) {
			step = factor
		}
	}
	var ticks []plot.Tick
	for at := int(least); float64(at) <= greatest; at += step {
		ticks = append(ticks, plot.Tick{Value: float64(at), Label: fmt.Sprint(at)})
	}
	return ticks
}
