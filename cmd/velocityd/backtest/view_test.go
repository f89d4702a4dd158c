package backtest

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

// sample is a result with keys that attackers choose.
func sample(t *testing.T) View {
	t.Helper()
	zone := service.Zone{ID: 1, Description: `login <b>per</b> "user"`, Rate: 5, Window: time.Minute}.WithDefaults()
	proposals, err := backtest.Grid{Rates: []int{3, 10, 5000}, Lockouts: []time.Duration{0, 15 * time.Minute}}.Proposals(zone)
	if err != nil {
		t.Fatal(err)
	}
	r, err := backtest.New(backtest.Setup{ZoneID: 1, Proposals: proposals, Past: backtest.Past{Zones: []service.Zone{zone}}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for i := range 3000 {
		at = at.Add(time.Second)
		key, outcome := "user"+strconv.Itoa(i%40), service.OutcomeSuccess
		if i%3 == 0 {
			key, outcome = "<script>alert(1)</script>", service.OutcomeFailure
		}
		r.Add(backtest.Attempt{ID: uint64(i + 1), At: at, Outcome: outcome, Places: []backtest.Place{
			{Bucket: service.Bucket{ZoneID: 1, Key: key}, TxnID: uint64(i + 1)},
		}})
	}
	result := r.Result()
	result.Rows = 3000
	return View{Zone: zone, Result: result, Key: strconv.Quote}
}

func TestTableShowsEachProposalItsLineAndItsSamples(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := sample(t).Table(&out); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"3,000 attempts, of which 2,000 have a success and 1,000 have a failure.", "as it happened", "3 in 1 minute, lockout 15 minutes",
		"5,000 in 1 minute", "---- rate 10: 1 burst above", "answers that 3 in 1 minute would change", "  velocityd txn explain ", `"<script>alert(1)</script>"`, "assumptions",
		"A rate of 2 lets 99.9 % of the 1,013 bursts with a success pass", "3,000 txns of all zones were read.",
	} {
		if !strings.Contains(out.String(), wanted) {
			t.Errorf("the table lacks %q:\n%s", wanted, out.String())
		}
	}
}

func TestAResultWithoutAttemptsCanBeShown(t *testing.T) {
	t.Parallel()
	v := sample(t)
	v.Result = backtest.Result{Proposals: v.Result.Proposals[:1], Demands: []backtest.Demand{{Window: time.Minute}}}
	var out bytes.Buffer
	if err := v.Table(&out); err != nil || !strings.Contains(out.String(), "Nobody has attempted anything") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestAResultThatWasCutBeforeItsTimeDoesNotSayThatNobodyCame(t *testing.T) {
	t.Parallel()
	v := View{Result: backtest.Result{Rows: 9, IsCut: true}}
	if lead := v.Lead(); !strings.Contains(lead, "No attempt of this time was replayed") || v.Scope() != "9 txns of all zones were read." {
		t.Errorf("%q, %q", lead, v.Scope())
	}
	v.Result.Rows, v.Result.Attempts, v.Result.Last = 0, 3, time.Date(2026, 11, 22, 10, 0, 2, 0, time.UTC) // of a log
	if scope := v.Scope(); scope != "The time has more: nothing after 2026-11-22 10:00:02 was replayed." {
		t.Errorf("a log: %q", scope)
	}
}
