package backtest

import (
	"slices"

	"velocityd/service"
)

// previewRates is how many rates one preview tries.
const previewRates = 12

// RatesAround returns the rates to be tried: all small ones, or some around the present and the asked one.
func RatesAround(now, asked int) []int {
	var rates []int
	if top := max(now, asked); top <= previewRates-2 {
		for rate := 1; rate <= previewRates; rate++ {
			rates = append(rates, rate)
		}
		rates = append(rates, now, asked)
	} else {
		rates = []int{now, asked}
		for _, part := range []float64{1.25, 0.8, 1.5, 0.67, 2, 0.5, 3, 0.33, 4, 0.25, 6, 0.1, 10} {
			rate := int(part*float64(asked) + 0.5)
			if len(rates) < previewRates && rate >= 1 && rate <= service.MaxRate && !slices.Contains(rates, rate) {
				rates = append(rates, rate)
			}
		}
	}
	slices.Sort(rates)
	return slices.Compact(rates)
}
