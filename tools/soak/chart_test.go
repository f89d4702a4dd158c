//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestChartDrawsEachSeries(t *testing.T) {
	t.Parallel()
	r := &report{Panels: panels(options{}), Retained: []float64{60, 120}}
	for n := range 40 {
		r.Seconds = append(r.Seconds, float64(10*n))
		for p := range r.Panels {
			r.add(p, "instance 1", float64(p))
			r.add(p, "instance 2", 2*float64(n))
		}
		for _, table := range []string{"zone_a", "zone_b", "zone_c"} {
			r.add(rows, table, 1)
		}
	}
	text, err := r.draw()
	if err != nil {
		t.Fatal(err)
	}
	curves, marks := 0, 0
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, isElement := token.(xml.StartElement); isElement && e.Name.Local == "polyline" {
			curves++
		} else if isElement && e.Name.Local == "path" {
			marks++
		}
	}
	if want := 8*2 + 4; curves != want { // of five tables two are drawn as one
		t.Errorf("%d curves, want %d", curves, want)
	}
	if want := 1 + 9*2; marks != want {
		t.Errorf("%d marks of retention, want %d", marks, want)
	}
	if !strings.Contains(string(text), ">2 others <") || strings.Contains(string(text), "NaN") {
		t.Error("the smaller tables are not drawn as one, or a place is no number")
	}
}

func TestAxisHasFewRoundSteps(t *testing.T) {
	t.Parallel()
	for top, want := range map[float64]float64{0: 1, 0.9: 0.25, 4: 1, 4.1: 2, 60: 20, 97: 25, 170: 50, 900: 250} {
		if got := tickStep(top, 4); got != want {
			t.Errorf("tickStep(%g) = %g, want %g", top, got, want)
		}
	}
}
