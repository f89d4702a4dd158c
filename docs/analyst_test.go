package docs_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"velocityd/tools/enginetest"
)

func TestTheAnalystsPageCountsAStricterLimitExactly(t *testing.T) {
	t.Parallel()
	const rate, window = 3, 600 * time.Second
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		var lines strings.Builder
		passed, stopped, users := map[string][]time.Duration{}, 0, map[string]bool{}
		at := time.Duration(0)
		for range 400 {
			at += time.Duration(random.IntN(100)) * time.Second // steps of whole seconds meet the edge of the window
			key := []string{"ann", "bob", "=cmd", `a\\tb`}[random.IntN(4)]
			fmt.Fprintf(&lines, "%s\t%d\n", key, at.Microseconds())
			counting := 0
			for _, earlier := range passed[key] {
				if earlier > at-window {
					counting++
				}
			}
			if counting >= rate {
				stopped++
				users[key] = true
				continue
			}
			passed[key] = append(passed[key], at)
		}
		want := fmt.Sprintf("400 attempts, %d stopped, of %d users\n", stopped, len(users))
		program := exec.CommandContext(t.Context(), "python3", "../examples/analyst/stricter.py")
		program.Stdin = strings.NewReader(lines.String())
		if got, err := program.CombinedOutput(); string(got) != want || stopped == 0 {
			t.Errorf("seed %d: got %q (%v), want %q", seed, got, err, want)
		}
	}
}

// TestAnalystsPageFindsFirstIDOfTime holds the range of ids against a scan: it must have all rows of the time,
// and few others.
func TestAnalystsPageFindsFirstIDOfTime(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		const page = "docs/analyst.md"
		w := newWorld(t, engine, program, page, nil)
		search := ""
		for _, b := range pageBlocks(t, page) {
			if strings.Contains(b.text, "CALL first_txn_since(@since") {
				search = b.text
			}
		}
		root, analyst := w.session("root"), w.session("analyst")
		enginetest.Exec(t, root, "USE "+w.Database)
		since := func(minutes int) (inTime, inRange, both int) {
			for _, s := range statements(strings.Replace(search, "INTERVAL 1 HOUR", fmt.Sprintf("INTERVAL %d MINUTE", minutes), 1)) {
				if err := query(t.Context(), analyst, s.text, io.Discard, false); err != nil {
					t.Fatal(err)
				}
			}
			const scan = "SELECT COUNT(IF(created_at >= @since, 1, NULL)), COUNT(IF(id >= @first, 1, NULL)), COUNT(IF(id >= " +
				"@first AND created_at >= @since, 1, NULL)) FROM read_txn"
			if err := analyst.QueryRowContext(t.Context(), scan).Scan(&inTime, &inRange, &both); err != nil {
				t.Fatal(err)
			}
			return inTime, inRange, both
		}
		if inTime, inRange, both := since(60); inTime+inRange+both != 0 {
			t.Errorf("no txn: got %d, %d, %d", inTime, inRange, both)
		}
		random := rand.New(rand.NewPCG(7, 7))
		const rows = 6000
		var values []string
		for id, second, n := 1000, 5*3600, 0; n < rows; n++ {
			id += 1 + random.IntN(2)
			if n < rows/2 { // the older half comes slowly, the newer one within half an hour
				second -= random.IntN(11)
			} else {
				second = 1800 * (rows - n) / (rows / 2)
			}
			values = append(values, fmt.Sprintf("(%d, UTC_TIMESTAMP(6) - INTERVAL %d SECOND, 99, 'ann', 1, 1, 0, 'full')", id, second))
		}
		enginetest.Exec(t, root, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, "+
			"counted, reason) VALUES "+strings.Join(values, ", "))
		for _, minutes := range []int{0, 1, 10, 29, 60, 200, 1000} {
			inTime, inRange, both := since(minutes)
			if both != inTime || inRange > inTime+1000+rows/2/15 || minutes > 0 && inTime == 0 { // 1,000 ids and two minutes
				t.Errorf("%d minutes: %d rows, the range has %d of them among %d", minutes, inTime, both, inRange)
			}
		}
	})
}
