package main

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"
)

// draw makes a picture, an SVG, of the rows that have a unit: bars relative to the original's median, and
// whiskers for the range of the rounds.
func (r *report) draw() []byte {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row reportRow) bool {
		return row.Unit == "" || row.Original.Median == 0
	})
	furthest := 1.0
	for _, row := range rows {
		furthest = max(furthest, row.KCM.Max/row.Original.Median, row.Original.Max/row.Original.Median)
	}
	const left, top, width, rowHeight = 440, 60, 900, 42
	height := top + rowHeight*len(rows) + 10
	x := func(ratio float64) float64 { return left + ratio/furthest*(width-left-20) }
	var out bytes.Buffer
	draw := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	draw(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %d" `+
		`font-family="Arial, Helvetica, sans-serif" font-size="13">`, width, height)
	draw(`<rect width="%d" height="%d" fill="#ffffff"/>`, width, height) // legible on dark pages, too
	draw(`<text x="20" y="24" font-weight="bold">kcm beside the original kube-controller-manager on %d cores, `+
		`rounds: %d</text>`, r.Cores, r.Rounds[len(r.Rounds)-1].Round)
	draw(`<text x="20" y="44">relative to the original's median; the whiskers span all rounds</text>`)
	// Colours that those with red-green blindness can tell apart, too.
	colours := []string{"#0072b2", "#e69f00"}
	for i, name := range []string{"kcm", "original"} {
		draw(`<rect x="%d" y="34" width="12" height="12" fill="%s"/><text x="%d" y="44">%s</text>`,
			left+i*80, colours[i], left+i*80+18, name)
	}
	draw(`<path d="M%.1f %d V%d" stroke="#cbd5e1"/>`, x(1), top, height)
	for i, row := range rows {
		better := "less is better"
		if strings.HasSuffix(row.Unit, "/s") {
			better = "more is better"
		}
		y := top + rowHeight*i
		draw(`<text x="20" y="%d">%s</text>`, y+14, html.EscapeString(strings.TrimSpace(row.Name)))
		draw(`<text x="20" y="%d" fill="#475569">%.3g against %.3g %s, %s</text>`,
			y+30, row.KCM.Median, row.Original.Median, row.Unit, better)
		for j, s := range []summary{row.KCM, row.Original} {
			one, y := row.Original.Median, float64(y+4+15*j)
			draw(`<rect x="%d" y="%.0f" width="%.1f" height="13" fill="%s"/>`, left, y, x(s.Median/one)-left, colours[j])
			draw(`<path d="M%.1f %.1f V%.1f M%.1[1]f %.1[4]f H%.1[5]f M%.1[5]f %.1[2]f V%.1[3]f" stroke="#464646" fill="none"/>`,
				x(s.Min/one), y+4, y+9, y+6.5, x(s.Max/one))
		}
	}
	draw("</svg>")
	return out.Bytes()
}
