package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

// studio makes the back-test that it is told to.
type studio struct {
	asked backtest.Query
	job   backtest.Job
	err   error
}

func (s *studio) Begin(_ context.Context, q backtest.Query, _, _ string) (backtest.Job, error) {
	s.asked = q
	s.job.ID, s.job.ZoneID, s.job.Since, s.job.Until = "job1", q.ZoneID, q.Since, q.Until
	return s.job, s.err
}

func (s *studio) Job(context.Context, string) (backtest.Job, error) { return s.job, s.err }

func (s *studio) Cancel(context.Context, string) (backtest.Job, error) {
	s.job.State = backtest.JobCancelled
	return s.job, s.err
}

// previewed returns a console with a zone whose back-tests a studio makes, and a browser.
func previewed(t *testing.T) (*place, *studio, *browser) {
	t.Helper()
	s := &studio{job: backtest.Job{State: backtest.JobRunning, Rows: 1234}}
	p := newPlace(t, false)
	p.backtests = s
	p.start(t, false)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	return p, s, p.browser(t)
}

func TestPreviewAsksNearbyRatesAndRefindsItsJob(t *testing.T) {
	t.Parallel()
	_, s, b := previewed(t)
	b.posts(t, "zones/1/edit",
		url.Values{
			"revision": {"1"}, "rate": {"8"}, "window": {"300"}, "counts": {"failures"}, "days": {"30"},
			"do": {"preview"},
		}, http.StatusOK, "1\u202f234 attempts read", `data-live="2"`, "Cancel", "<del>1 min</del>",
		"<ins>5 min</ins>")
	grid := s.asked.Grid
	if len(grid.Rates) != 12 || grid.Rates[0] != 1 || grid.Windows[0].Duration != 5*time.Minute ||
		grid.Counts[0] != service.CountsFailures || len(grid.Periods) != 0 {
		t.Errorf("the question is %+v", s.asked)
	}
	if length := s.asked.Until.Sub(s.asked.Since.Time); length < 29*24*time.Hour {
		t.Errorf("it is about %s", length)
	}
	b.posts(t, "zones/1/preview/job1/cancel", url.Values{"query": {"rate=8"}}, http.StatusOK, "This preview was cancelled",
		`zones/1/edit?rate=8"`)
}

// result is that of a back-test with two rates.
func result() *backtest.Result {
	numbers := func(rate int, people int64) backtest.Proposal {
		return backtest.Proposal{
			Rate: rate, Window: service.Lasting(time.Minute),
			Numbers: backtest.Numbers{People: people, Blocked: 40, Failures: 30, Successes: 2},
		}
	}
	strict := numbers(5, 17)
	strict.Samples = []backtest.Sample{
		{TxnID: 4711, At: service.At(time.Now()), Blocked: true, Reason: service.ReasonFull, Outcome: service.OutcomeSuccess},
	}
	return &backtest.Result{
		ZoneID: 1, Attempts: 1000, Failures: 300, Proposals: []backtest.Proposal{strict, numbers(8, 0)},
		Demands: []backtest.Demand{{Window: service.Lasting(time.Minute), Bursts: 90, Succeeded: 80, Bins: []backtest.Bin{
			{Least: 1, Most: 1, Bursts: 80, Succeeded: 79},
			{Least: 7, Most: 7, Bursts: 9, Succeeded: 1},
			{Least: 21, Most: 50, Bursts: 1},
		}}},
		Assumptions: []string{"Nobody knows more."},
	}
}

func TestPreviewShowsHarmPerRateAndSavesChoice(t *testing.T) {
	t.Parallel()
	p, s, b := previewed(t)
	s.job = backtest.Job{
		ID: "job1", State: backtest.JobDone, ZoneID: 1, Since: service.At(time.Now().Add(-time.Hour)),
		Until: service.At(time.Now()), Result: result(),
	}
	page := b.gets(t, "zones/1/preview/job1?rate=8", http.StatusOK, "data-preview",
		`data-choice="0" data-label="5" hidden`, `data-choice="1" data-label="8">`, `href="/console/txns/4711"`, "17",
		"21–50", "Nobody knows more.", "10 %")
	lacks(t, page, "data-live", "<img")
	form := url.Values{"do": {"shadow:8"}, "reason": {"tried"}}
	for _, field := range []string{"revision", "rate", "window", "mode", "lockout"} {
		_, rest, _ := strings.Cut(page, `name="`+field+`" value="`)
		value, _, _ := strings.Cut(rest, `"`)
		form.Set(field, value)
	}
	if _, page = b.post(t, "zones/1/edit", form); !strings.Contains(page, "The zone was changed") {
		t.Error(page)
	}
	if zone, err := p.Zone(t.Context(), 1); err != nil || zone.Rate != 8 || zone.Mode != service.ModeShadow {
		t.Errorf("the zone is %+v, %v", zone, err)
	}
}

func TestSecondPreviewTellsOfFirstAndKeepsForm(t *testing.T) {
	t.Parallel()
	_, s, b := previewed(t)
	s.err = service.ErrBusy
	b.posts(t, "zones/1/edit", url.Values{"revision": {"1"}, "rate": {"77"}, "do": {"preview"}},
		http.StatusServiceUnavailable, "The preview was not begun", `value="77"`)
}
