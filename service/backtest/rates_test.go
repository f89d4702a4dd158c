package backtest

import (
	"slices"
	"testing"
)

func TestPreviewRatesAreFewAndHoldBothRates(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]int{{5, 8}, {0, 1}, {11, 11}, {20, 500}, {100, 100}, {0, 1_000_000}, {1_000_000, 3}} {
		rates := RatesAround(pair[0], pair[1])
		if len(rates) > previewRates+1 || !slices.Contains(rates, pair[0]) || !slices.Contains(rates, pair[1]) ||
			!slices.IsSorted(rates) {
			t.Errorf("around %v: %v", pair, rates)
		}
	}
}
