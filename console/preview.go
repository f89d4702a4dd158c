package console

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/console/chart"
	"velocityd/console/format"
	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/backtest"
)

// preview is the content of the page that shows what other settings would have done.
type preview struct {
	Zone    service.Zone
	Wanted  service.Zone
	Changes []settings.Difference
	Hidden  settings.Values // the settings of the form
	Query   template.URL    // the same in an address
	Job     backtest.Job
	// Done is how much of the time is read, in per cent.
	Done    int
	Choices []previewChoice
	First   int // the choice that is shown first
	Last    int // the number of the last choice
	Demand  chart.Demand
	MaySave bool
	Form    form // an empty one: that of the zone is shown again
}

type previewChoice struct {
	backtest.Proposal
	Number         int
	IsNow, IsAsked bool // the rate that the zone has, and the one that the form has
}

// beginPreview begins a back-test with the settings of a form, and leads to its page.
func (v *visit) beginPreview(now, zone service.Zone) error {
	days, err := strconv.Atoi(v.r.PostForm.Get("days"))
	if err != nil || days < 1 || days > int(backtest.MaxTime.Hours()/24) {
		days = 7
	}
	since := v.Now().Add(-time.Duration(days) * 24 * time.Hour).UTC().Truncate(time.Microsecond)
	query := backtest.Query{ZoneID: zone.ID, Since: service.At(since), Grid: backtest.Grid{
		Rates: backtest.RatesAround(now.Rate, zone.Rate), Lockouts: []service.Duration{service.Lasting(zone.Lockout)},
		Counts: []service.Counts{zone.Counts},
	}}
	if zone.Calendar.IsNone() {
		query.Grid.Windows = []service.Duration{service.Lasting(zone.Window)}
	} else {
		query.Grid.Periods = []service.Period{zone.Calendar.Period}
	}
	job, err := v.api.BeginBacktest(v.r.Context(), query, "")
	if errors.Is(err, service.ErrBusy) {
		return &api.Problem{Status: statusOf(err), Detail: "The preview was not begun: " + sentenceOf(err)}
	}
	if err != nil {
		return err
	}
	changed := settings.ChangedValues(now, zone)
	return v.goTo(fmt.Sprintf("zones/%d/preview/%s?%s", zone.ID, url.PathEscape(job.ID), changed.Encode()))
}

// showPreview shows how far a back-test is, and its result.
func (v *visit) showPreview(zone service.Zone) error {
	wanted, err := settings.Read(v.r.URL.Query(), zone)
	if err != nil {
		return v.fail(http.StatusBadRequest, "The address of this preview is not whole.", sentenceOf(err))
	}
	job, err := v.api.BacktestJob(v.r.Context(), zone.ID, v.r.PathValue("job"))
	if err != nil {
		return err
	}
	p := preview{
		Zone: zone, Wanted: wanted, Changes: settings.Differences(zone, wanted), Hidden: settings.ValuesOf(wanted),
		Query: template.URL(settings.ChangedValues(zone, wanted).Encode()), //nolint:gosec // it is encoded
		Job:   job, MaySave: v.may("zones"),
	}
	p.Done = progressOf(job)
	if job.Result != nil {
		p.fill(*job.Result)
	}
	return v.show("preview", "Zones", fmt.Sprintf("Preview of zone %d", zone.ID), p)
}

// progressOf returns how much of its time a back-test has read, in per cent. It is 0 while that is not known.
func progressOf(job backtest.Job) int {
	whole := job.Until.Sub(job.Since.Time)
	if job.At.Before(job.Since.Time) || whole <= 0 {
		return 0
	}
	return min(99, int(100*job.At.Sub(job.Since.Time)/whole))
}

func (p *preview) fill(result backtest.Result) {
	var rates []int
	for i, proposal := range result.Proposals {
		rates = append(rates, proposal.Rate)
		c := previewChoice{
			Proposal: proposal, Number: i, IsNow: proposal.Rate == p.Zone.Rate,
			IsAsked: proposal.Rate == p.Wanted.Rate,
		}
		if c.IsAsked {
			p.First = i
		}
		p.Choices, p.Last = append(p.Choices, c), i
	}
	if len(result.Demands) > 0 {
		p.Demand = chart.NewDemand(result.Demands[0], rates, p.First)
		p.Demand.Span = format.Span(p.Wanted)
	}
}

func (v *visit) cancelPreview(zone service.Zone) error {
	job := v.r.PathValue("job")
	if _, err := v.api.CancelBacktest(v.r.Context(), zone.ID, job); err != nil {
		return err
	}
	query, _ := url.ParseQuery(v.r.PostForm.Get("query")) // text that is none leads to a preview of the zone as it is
	return v.goTo(fmt.Sprintf("zones/%d/preview/%s?%s", zone.ID, url.PathEscape(job), query.Encode()))
}
