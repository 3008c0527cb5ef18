package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that those with red-green blindness can tell apart, too.
var (
	kcmColour      = color.RGBA{R: 0, G: 114, B: 178, A: 255}
	originalColour = color.RGBA{R: 230, G: 159, B: 0, A: 255}
)

const (
	barWidth  = 7 * vg.Millimeter / 2
	rowHeight = 11 * vg.Millimeter
	plotWidth = 240 * vg.Millimeter
	margin    = 4 * vg.Millimeter
)

// draw makes a picture of the rows that have a unit: bars relative to the
// original's median, and whiskers for the range of the rounds.
func (r *report) draw(path string) error {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row reportRow) bool {
		return row.Unit == "" || row.Original.Median == 0
	})
	if len(rows) == 0 {
		return nil // -only has left nothing to compare
	}
	slices.Reverse(rows) // the first row is at the top
	p := newPlot()
	p.Title.Text = fmt.Sprintf("kcm beside the original kube-controller-manager on %d cores, rounds: %d",
		r.Machine.Cores, r.Rounds[len(r.Rounds)-1].Round)
	p.X.Label.Text = "relative to the original's median; the whiskers span all rounds"
	for _, bars := range []struct {
		name   string
		of     func(reportRow) summary
		colour color.Color
		offset vg.Length
	}{
		{"original", func(row reportRow) summary { return row.Original }, originalColour, -barWidth / 2},
		{"kcm", func(row reportRow) summary { return row.KCM }, kcmColour, barWidth / 2},
	} {
		if err := addBars(p, rows, bars.name, bars.of, bars.colour, bars.offset); err != nil {
			return err
		}
	}
	labelRows(p, rows)
	p.X.Max *= 1.03 // room for the last line
	return save(p, rowHeight*vg.Length(len(rows))+30*vg.Millimeter, path)
}

const fontFamily = "Liberation Sans"

// newPlot returns an empty plot.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	p.X.Min = 0
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0 // rows need no lines between them
	p.Add(grid)
	return p
}

// save writes an SVG, on white so that it is legible on dark pages too. Arial and Helvetica have the measures of the font that
// the plot was laid out with, and are there where that is not.
func save(p *plot.Plot, height vg.Length, path string) error {
	picture := vgsvg.New(plotWidth, height)
	canvas := draw.New(picture)
	canvas.FillPolygon(color.White, []vg.Point{
		canvas.Min, {X: canvas.Max.X, Y: canvas.Min.Y}, canvas.Max, {X: canvas.Min.X, Y: canvas.Max.Y},
	})
	p.Draw(draw.Crop(canvas, margin, -margin, margin, -margin))
	var svg bytes.Buffer
	if _, err := picture.WriteTo(&svg); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	family := []byte("font-family:" + fontFamily)
	content := bytes.ReplaceAll(svg.Bytes(), family, append(family, ",Arial,Helvetica,sans-serif"...))
	return os.WriteFile(path, content, 0o644)
}

// labelRows writes beside each row what it is and what was measured.
func labelRows(p *plot.Plot, rows []reportRow) {
	names := make([]string, len(rows))
	for i, row := range rows {
		better := "less is better"
		if row.MoreIsBetter {
			better = "more is better"
		}
		names[i] = fmt.Sprintf("%s\n%s against %s %s, %s", row.Name, short(row.KCM.Median), short(row.Original.Median), row.Unit, better)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.7, float64(len(rows))-0.3
}

func short(value float64) string { return fmt.Sprintf("%.3g", value) }

// addBars adds a bar with whiskers to each row.
func addBars(p *plot.Plot, rows []reportRow, name string, of func(reportRow) summary, colour color.Color, offset vg.Length) error {
	values := make(plotter.Values, len(rows))
	spread := whiskers{offset: offset}
	for i, row := range rows {
		s, unit := of(row), row.Original.Median
		values[i] = s.Median / unit
		spread.ranges = append(spread.ranges, [2]float64{s.Min / unit, s.Max / unit})
	}
	bars, err := plotter.NewBarChart(values, barWidth)
	if err != nil {
		return err
	}
	bars.Horizontal, bars.Color, bars.Offset = true, colour, offset
	bars.LineStyle.Width = 0
	p.Add(bars, spread)
	p.Legend.Add(name, bars)
	return nil
}

// whiskers are the ranges of the bars, which stand beside their rows. The error
// bars of the library cannot be moved aside with their bars.
type whiskers struct {
	ranges [][2]float64
	offset vg.Length
}

// Plot implements [plot.Plotter].
func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: color.Gray{Y: 70}, Width: vg.Points(0.8)}
	const tip = barWidth / 5
	for i, r := range w.ranges {
		at := y(float64(i)) + w.offset
		c.StrokeLine2(style, x(r[0]), at, x(r[1]), at)
		c.StrokeLine2(style, x(r[0]), at-tip, x(r[0]), at+tip)
		c.StrokeLine2(style, x(r[1]), at-tip, x(r[1]), at+tip)
	}
}

// DataRange implements [plot.DataRanger].
func (w whiskers) DataRange() (xmin, xmax, ymin, ymax float64) {
	for _, r := range w.ranges {
		xmax = max(xmax, r[1])
	}
	return 0, xmax, 0, float64(len(w.ranges) - 1)
}
