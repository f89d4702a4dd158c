package history_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/bench/history"
)

func plan() history.Plan {
	return history.Plan{Rows: 60_000, Seed: 7, End: time.Date(2026, 3, 4, 18, 0, 0, 0, time.UTC)}
}

// row is a line, cut at its tabs.
type row []string

func (r row) id(t *testing.T) uint64 {
	t.Helper()
	id, err := strconv.ParseUint(r[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (r row) at(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05.000000", r[1])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// written returns the rows of all days.
func written(t *testing.T, p history.Plan) (days [][]row) {
	t.Helper()
	for day := range history.Days {
		var text bytes.Buffer
		if err := p.WriteDay(&text, day); err != nil {
			t.Fatal(err)
		}
		var rows []row
		for line := range strings.Lines(text.String()) {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		days = append(days, rows)
	}
	return days
}

func TestIDsAndInstantsRiseWithinTheirDays(t *testing.T) {
	t.Parallel()
	p := plan()
	next, last := uint64(1), time.Time{}
	for day, rows := range written(t, p) {
		if p.FirstID(day) != next {
			t.Fatalf("day %d begins with id %d, and %d is the next one", day, p.FirstID(day), next)
		}
		from := p.Begin().AddDate(0, 0, day)
		for _, r := range rows {
			if len(r) != len(strings.Split(history.Columns, ",")) {
				t.Fatalf("%d columns: %q", len(r), r)
			}
			if at := r.at(t); r.id(t) != next || at.Before(last) || at.Before(from) || !at.Before(from.AddDate(0, 0, 1)) ||
				!at.Before(p.End) {
				t.Fatalf("day %d, id %d after %v: %q", day, next, last, r)
			}
			next, last = next+1, r.at(t)
		}
	}
	if int(next) != p.Rows+1 || p.FirstID(history.Days) != next {
		t.Errorf("%d rows, and the first free id is %d", next-1, p.FirstID(history.Days))
	}
}

func TestTheSamePlanMakesTheSameRows(t *testing.T) {
	t.Parallel()
	write := func(p history.Plan) string {
		var text bytes.Buffer
		if err := p.WriteDay(&text, 3); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	other := plan()
	other.Seed++
	if one, again := write(plan()), write(plan()); one != again || one == write(other) {
		t.Error("rows do not depend on the plan, or not on it alone")
	}
}

func TestMarkNamesLastTxnBeforeItsHour(t *testing.T) {
	t.Parallel()
	p := plan()
	instants := make([]time.Time, 1, p.Rows+1)
	for _, rows := range written(t, p) {
		for _, r := range rows {
			instants = append(instants, r.at(t))
		}
	}
	marks := p.Marks()
	if want := (history.Days-1)*24 + 18; len(marks) != want {
		t.Errorf("%d marks, want one for each of %d hours", len(marks), want)
	}
	for _, m := range marks {
		if !instants[m.TxnID].Before(m.At) || int(m.TxnID) < p.Rows && instants[m.TxnID+1].Before(m.At) {
			t.Fatalf("mark %v: txn %d was at %v", m.At, m.TxnID, instants[m.TxnID])
		}
	}
}

func TestKindsOfTxnsHaveTheirShares(t *testing.T) {
	t.Parallel()
	p := plan()
	counts := map[string]int{}
	unreported := map[uint64]bool{}
	for _, rows := range written(t, p) {
		for _, r := range rows {
			counts["zone "+r[2]]++
			counts["key "+r[3]]++
			counts["blocked "+r[4]]++
			counts["outcome "+r[8]]++
			unreported[r.id(t)] = r[4] == "0" && r[8] == `\N`
			if blocked := r[4] == "1"; blocked == (r[6] == "1") || blocked && r[8] != `\N` || blocked == (r[7] == `\N`) {
				t.Fatalf("a blocked txn counts, has an outcome or no reason: %q", r)
			}
		}
	}
	for what, share := range map[string]float64{
		"zone 1": 0.35, "zone 2": 0.45, "zone 3": 0.2, "key " + history.NoisyAddress: 0.1, "blocked 1": 0.09 + 0.7*0.02,
		"outcome success": 0.7 * 0.78, "outcome failure": 0.7*0.15 + 0.01,
	} {
		if got := float64(counts[what]) / float64(p.Rows); got < 0.9*share || got > 1.1*share {
			t.Errorf("%s has a share of %v, want %v", what, got, share)
		}
	}
	if first, tenth := counts["key "+history.User(0)], counts["key "+history.User(500)]; first < 2*tenth || tenth == 0 {
		t.Errorf("the tail of users is not heavy: %d txns of the first, %d of the five hundredth", first, tenth)
	}
	for n := range p.Rows {
		if id := p.UnreportedID(n); !unreported[id] {
			t.Fatalf("txn %d was blocked or has an outcome", id)
		}
	}
}

func TestAFloodOfOneAddressEndsTheHistory(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Flood = 500
	rows := written(t, p)[history.Days-1]
	flood := rows[len(rows)-p.Flood:]
	for n, r := range flood {
		if r.id(t) != p.FirstID(history.Days)+uint64(n) || r[3] != history.FloodAddress ||
			!r.at(t).Equal(p.End.Add(time.Duration(n-p.Flood)*time.Microsecond)) {
			t.Fatalf("row %d: %q", n, r)
		}
	}
	if last := flood[len(flood)-1]; last.id(t)+1 != p.NextID() {
		t.Errorf("the next id is %d after %q", p.NextID(), last)
	}
}

func TestAddressesAreThoseOfTheirNetwork(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "100.64.0.0", 257: "100.64.1.1", 1<<22 - 1: "100.127.255.255"} {
		if got := history.Address(n); got != want {
			t.Errorf("address %d is %s, want %s", n, got, want)
		}
	}
}

func TestHistoryEndingAtMidnightHasNoEmptyDay(t *testing.T) {
	t.Parallel()
	p := plan()
	p.End = p.End.Truncate(24 * time.Hour)
	if last := p.Begin().AddDate(0, 0, history.Days); !last.Equal(p.End) {
		t.Errorf("the last day ends at %v, want %v", last, p.End)
	}
	for day, rows := range written(t, p) {
		if len(rows) == 0 {
			t.Errorf("day %d has no txns", day)
		}
	}
}
