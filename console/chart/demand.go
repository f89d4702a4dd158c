package chart

import (
	"fmt"
	"math"

	"velocityd/service/backtest"
)

// Sizes of the chart of a preview.
const (
	demandLeft, demandRight = 44.0, 664.0
	demandTop, demandBase   = 26.0, 166.0
)

// Demand is how many attempts buckets made, and where the rates of a preview stand. Heights are logarithmic, because
// few attempts are common and many are rare.
type Demand struct {
	backtest.Demand
	Span  string // for how long attempts count, in words
	Bars  []demandBar
	Lines []demandLine
	Ticks []demandTick
}

type demandBar struct {
	backtest.Bin
	Label                            string
	X, Width, Y, Height, Middle      float64
	SucceededX, SucceededY, SuccessH float64
}

type demandLine struct {
	Number, Rate int
	X, TextX     float64
	IsFirst      bool
	IsLeft       bool // its text stands left of it
}

type demandTick struct {
	N        int64
	Y, TextY float64
}

// NewDemand draws a demand. Its bins must be in order. first is the place of the rate that is shown first.
func NewDemand(d backtest.Demand, rates []int, first int) Demand {
	f := Demand{Demand: d}
	most := int64(1)
	for _, bin := range d.Bins {
		most = max(most, bin.Bursts)
	}
	top := math.Log10(float64(most)) + 0.3
	height := func(n int64) float64 {
		if n == 0 {
			return 0
		}
		return (demandBase - demandTop) * (math.Log10(float64(n)) + 0.3) / top
	}
	for n := int64(1); n <= most; n *= 10 {
		f.Ticks = append(f.Ticks, demandTick{n, demandBase - height(n), demandBase - height(n) + 4})
	}
	slot := (demandRight - demandLeft) / float64(max(len(d.Bins), 1))
	for i, bin := range d.Bins {
		bar := demandBar{Bin: bin, X: demandLeft + slot*(float64(i)+0.12), Width: slot * 0.36}
		bar.Height, bar.SuccessH = height(bin.Bursts), height(bin.Succeeded)
		bar.Y, bar.SucceededX, bar.SucceededY = demandBase-bar.Height, bar.X+slot*0.38, demandBase-bar.SuccessH
		bar.Middle, bar.Label = demandLeft+slot*(float64(i)+0.5), fmt.Sprint(bin.Least)
		if bin.Most > bin.Least {
			bar.Label = fmt.Sprintf("%d–%d", bin.Least, bin.Most)
		}
		f.Bars = append(f.Bars, bar)
	}
	for i, rate := range rates {
		x := demandLeft + slot*placeOf(d.Bins, rate)
		line := demandLine{Number: i, Rate: rate, X: x, TextX: x + 6, IsFirst: i == first, IsLeft: x > demandRight-90}
		if line.IsLeft {
			line.TextX = x - 6
		}
		f.Lines = append(f.Lines, line)
	}
	return f
}

// placeOf returns behind how many bins a rate stands: those right of it have buckets that it stops.
func placeOf(bins []backtest.Bin, rate int) float64 {
	for i, bin := range bins {
		switch {
		case rate < bin.Least:
			return float64(i)
		case rate < bin.Most:
			return float64(i) + float64(rate-bin.Least+1)/float64(bin.Most-bin.Least+1)
		}
	}
	return float64(len(bins))
}
