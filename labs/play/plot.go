package play

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

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

// draw draws how large each ReplicaSet has been since the mark: as a line of bars
// each for the reader, and as NAME.svg beside the logs. Those that were to have
// no pods all the time are left out.
func (p *Play) draw(c *call) error {
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
	path := filepath.Join(p.Logs, c.args[0]+".svg")
	if err := draw(curves, end, path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	p.Narrator.Say("drawn in " + path)
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
	_, err := p.since(func(_ history.State, change history.Change) error {
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
