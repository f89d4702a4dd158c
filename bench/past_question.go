package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/round"
)

// question is one kind of request about a history. Each request draws other rows.
type question struct {
	id, title string
	isFew     bool // it is asked a tenth of the times: each takes long
	// request returns the method, the path and the body of a request.
	request func(history.Plan, *rand.Rand) (method, path, body string)
}

// The ids of the questions.
const (
	qFloor   = "floor"
	qNobody  = "nobody"
	qNewest  = "newest"
	qNoisy   = "noisy"
	qMiddle  = "middle"
	qHour    = "hour"
	qRare    = "rare"
	qLookUp  = "look-up"
	qReport  = "report"
	qRelease = "release"
)

// pageOf returns a request for a page of 50 txns.
func pageOf(pairs ...string) (method, path, body string) {
	query := url.Values{"limit": {"50"}}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return http.MethodGet, "/v1/txns?" + query.Encode(), ""
}

// anHour returns the begin and the end of an hour of the history.
func anHour(p history.Plan, random *rand.Rand) (since, until string) {
	at := p.Begin().Add(time.Duration(random.Int64N(int64(p.End.Sub(p.Begin()) - time.Hour))))
	return at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)
}

// questions returns all kinds of requests, in the order of the report.
func questions() []question {
	user := fmt.Sprint(history.ZoneUser)
	address := fmt.Sprint(history.ZoneAddress)
	someUser := func(p history.Plan, random *rand.Rand) string { return history.User(random.IntN(p.Users())) }
	return append([]question{
		{qFloor, "a zone's settings, for comparison", false, func(history.Plan, *rand.Rand) (string, string, string) {
			return http.MethodGet, "/v1/zones/" + user, ""
		}},
		{qNobody, "a key without rows", false, func(_ history.Plan, random *rand.Rand) (string, string, string) {
			return pageOf("zone", user, "key", fmt.Sprintf("nobody-%d", random.Int64()))
		}},
		{qNewest, "the newest 50 of a user", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			return pageOf("zone", user, "key", someUser(p, random))
		}},
		{qNoisy, "the newest 50 of an address with a tenth of all rows", false, func(history.Plan, *rand.Rand) (string, string, string) {
			return pageOf("zone", address, "key", history.NoisyAddress)
		}},
		{qMiddle, "50 of that address before some hour", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			_, until := anHour(p, random)
			return pageOf("zone", address, "key", history.NoisyAddress, "until", until)
		}},
		{qHour, "50 of all keys in some hour", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			since, until := anHour(p, random)
			return pageOf("since", since, "until", until)
		}},
		{qRare, "all keys until some hour, by an attempt id that nobody has", true, func(p history.Plan, random *rand.Rand) (string, string, string) {
			_, until := anHour(p, random)
			return pageOf("until", until, "attempt_id", fmt.Sprintf("nobody-%d", random.Int64()))
		}},
		{qLookUp, "a txn by its id", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			return http.MethodGet, fmt.Sprintf("/v1/txns/%d", 1+random.IntN(p.Rows)), ""
		}},
		{qReport, "a report by a txn's id", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			return http.MethodPost, fmt.Sprintf("/v1/txns/%d/outcome", p.UnreportedID(random.IntN(p.Rows))), `{"outcome":"failure"}`
		}},
		{qRelease, "a release of a user", false, func(p history.Plan, random *rand.Rand) (string, string, string) {
			known := history.User(random.IntN(min(p.Users(), buckets))) // with a row in zone_bucket_lock
			return http.MethodPost, "/v1/zones/" + user + "/buckets/" + known + "/release", `{"reason":"benchmark"}`
		}},
	}, pages()...)
}

// asked is what a kind of request took, in one turn on one history.
type asked struct {
	question string
	history  *lentPast
	turn     int
	round.Summary
}

// errBusy says that the service refused a request for want of time or capacity.
var errBusy = errors.New("status 503")

// ask sends so many requests, one after the other. It counts those that the service refuses.
func (q question) ask(ctx context.Context, l *lentPast, turn, times int) (asked, error) {
	a := asked{question: q.id, history: l, turn: turn}
	random := rand.New(rand.NewPCG(uint64(turn), uint64(len(q.id))))
	var latencies round.Histogram
	began := time.Now()
	for range times {
		took, err := q.once(ctx, l, random)
		switch {
		case errors.Is(err, errBusy):
			a.Busy++
		case err != nil:
			return a, fmt.Errorf("%s: %s: %w", l.title(), q.title, err)
		}
		latencies.Record(took)
	}
	a.Summary = round.Summary{
		Admitted: int64(times) - a.Busy, Busy: a.Busy, Seconds: time.Since(began).Seconds(),
		P50: latencies.Quantile(0.5), P99: latencies.Quantile(0.99), Max: latencies.Quantile(1),
	}
	return a, nil
}

// once sends one request and reads its whole answer.
func (q question) once(ctx context.Context, l *lentPast, random *rand.Rand) (time.Duration, error) {
	method, path, body := q.request(l.plan, random)
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	address := "http://" + l.address + path
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body)) //nolint:gosec // a service of this program
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	switch {
	case strings.HasPrefix(path, "/console/"):
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case body != "":
		request.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	response, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return 0, fmt.Errorf("ask: %w", err)
	}
	text, err := io.ReadAll(response.Body)
	took := time.Since(began)
	_ = response.Body.Close()
	if err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case response.StatusCode == http.StatusServiceUnavailable:
		return took, errBusy
	case response.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, tail(text))
	}
	return took, nil
}
