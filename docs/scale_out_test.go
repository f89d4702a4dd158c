package docs

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// rowsBelow returns the cells of the table whose head begins so, by the first cell of each row.
func rowsBelow(t *testing.T, page, head string) map[string][]float64 {
	t.Helper()
	_, rest, found := strings.Cut(page, head)
	if !found {
		t.Fatalf("the page has no table %q", head)
	}
	rows := map[string][]float64{}
	for i, line := range strings.Split(rest, "\n") {
		if i > 1 && !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if i < 2 { // the rest of the head, and the line below it
			continue
		}
		for _, cell := range cells[1:] {
			number, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			rows[cells[0]] = append(rows[cells[0]], number)
		}
	}
	return rows
}

func TestCoresOnPaperFollowFromTheMeasuredCosts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	costs, cores := rowsBelow(t, string(text), "| process |"), rowsBelow(t, string(text), "| busy cores |")
	if len(costs) != 6 || len(cores) != len(costs) {
		t.Fatalf("costs of %d processes and cores of %d", len(costs), len(cores))
	}
	const batch = 100
	for process, cost := range costs {
		for i, perSecond := range []float64{50_000, 250_000, 1_000_000} {
			want := (perSecond/batch*cost[0] + perSecond*cost[1] + perSecond*cost[2]) / 1e6
			if math.Abs(cores[process][i]-want) > 0.051 {
				t.Errorf("%s at %v/s: %v cores on the page, the costs give %.2f", process, perSecond, cores[process][i], want)
			}
		}
	}
}
