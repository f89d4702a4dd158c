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
)

// question is one kind of request about a history.
type question struct {
	title string
	isFew bool // it is asked a tenth of the times: each takes long
	// request returns the request for the rows that random draws: other ones each time.
	request func(history.Plan, *rand.Rand) request
}

// request is a GET of a path, or a POST if there is a body.
type request struct{ path, body string }

// The questions that the claims name.
const (
	qNobody = "a key without rows"
	qNewest = "the newest 50 of a user"
)

// pageOf returns a request for a page of 50 txns, by pairs of name and value.
func pageOf(pairs ...any) request { return listOf("txns", pairs...) }

// checksOf returns a request for a page of 50 checks, by pairs of name and value.
func checksOf(pairs ...any) request { return listOf("checks", pairs...) }

func listOf(things string, pairs ...any) request {
	query := url.Values{"limit": {"50"}}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]))
	}
	return request{path: "/v1/" + things + "?" + query.Encode()}
}

// anHour returns the begin and the end of an hour of the history.
func anHour(p history.Plan, random *rand.Rand) (since, until string) {
	at := p.Begin().Add(time.Duration(random.Int64N(int64(p.End.Sub(p.Begin()) - time.Hour))))
	return at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)
}

// questions returns all kinds of requests, in the order of the report.
func questions() []question {
	some := func(title string, f func(history.Plan, *rand.Rand) request) question {
		return question{title, false, f}
	}
	few := func(title string, f func(history.Plan, *rand.Rand) request) question { return question{title, true, f} }
	page := func(title, path string) question {
		return few("page "+title, func(history.Plan, *rand.Rand) request { return request{path: "/console/" + path} })
	}
	search := func(key string) request { return request{"/console/search", url.Values{"text": {key}}.Encode()} }
	nobody := func(random *rand.Rand) string { return fmt.Sprintf("nobody-%d", random.Int64()) }
	return []question{
		some("a zone's settings, for comparison", func(history.Plan, *rand.Rand) request {
			return request{path: fmt.Sprintf("/v1/zones/%d", history.ZoneUser)}
		}),
		some(qNobody, func(_ history.Plan, random *rand.Rand) request {
			return pageOf("zone", history.ZoneUser, "key", nobody(random))
		}),
		some(qNewest, func(p history.Plan, random *rand.Rand) request {
			return pageOf("zone", history.ZoneUser, "key", history.User(random.IntN(p.Users())))
		}),
		some("the newest 50 of an address with a tenth of all rows", func(history.Plan, *rand.Rand) request {
			return pageOf("zone", history.ZoneAddress, "key", history.NoisyAddress)
		}),
		some("50 of that address before some hour", func(p history.Plan, random *rand.Rand) request {
			_, until := anHour(p, random)
			return pageOf("zone", history.ZoneAddress, "key", history.NoisyAddress, "until", until)
		}),
		some("50 of all keys in some hour", func(p history.Plan, random *rand.Rand) request {
			since, until := anHour(p, random)
			return pageOf("since", since, "until", until)
		}),
		some("the newest 50 checks of a user", func(p history.Plan, random *rand.Rand) request {
			return checksOf("zone", history.ZoneUser, "key", history.User(random.IntN(p.Users())))
		}),
		some("the newest 50 checks of an address with a tenth of all rows", func(history.Plan, *rand.Rand) request {
			return checksOf("zone", history.ZoneAddress, "key", history.NoisyAddress)
		}),
		some("50 checks of all keys in some hour", func(p history.Plan, random *rand.Rand) request {
			since, until := anHour(p, random)
			return checksOf("since", since, "until", until)
		}),
		few("all keys until some hour, by an attempt id that nobody has", func(p history.Plan, random *rand.Rand) request {
			_, until := anHour(p, random)
			return pageOf("until", until, "attempt_id", nobody(random))
		}),
		some("a txn by its id", func(p history.Plan, random *rand.Rand) request {
			return request{path: fmt.Sprintf("/v1/txns/%d", 1+random.IntN(p.Rows))}
		}),
		some("a report by a txn's id", func(p history.Plan, random *rand.Rand) request {
			return request{fmt.Sprintf("/v1/txns/%d/outcome", p.UnreportedID(random.IntN(p.Rows))), `{"outcome":"failure"}`}
		}),
		some("a release of a user", func(p history.Plan, random *rand.Rand) request {
			known := history.User(random.IntN(min(p.Users(), buckets))) // with a row in zone_bucket_lock
			return request{fmt.Sprintf("/v1/zones/%d/buckets/%s/release", history.ZoneUser, known), `{"reason":"benchmark"}`}
		}),
		page("Now", ""), page("History", "history"), page("History, blocked alone", "history?blocked=true"),
		page("Locked", "locked"),
		page("Attacks", "attacks"), page("Zones", "zones"), page("of a zone", fmt.Sprintf("zones/%d", history.ZoneUser)),
		page("Overrides", "overrides"), page("Audit", "audit"), page("Health", "health"),
		few("page of a decision", func(p history.Plan, random *rand.Rand) request {
			return request{path: fmt.Sprintf("/console/txns/%d", 1+random.IntN(p.Rows))}
		}),
		few("page of a user, from the search", func(p history.Plan, random *rand.Rand) request {
			return search(history.User(random.IntN(p.Users())))
		}),
		few("page of an address with a tenth of all rows, from the search", func(history.Plan, *rand.Rand) request {
			return search(history.NoisyAddress)
		}),
	}
}

// asked is the time of a kind of request, in one turn on one history.
type asked struct {
	question string
	history  *past
	result
}

// errBusy says that the service refused a request for want of time or capacity.
var errBusy = errors.New("status 503")

// ask sends so many requests, one after the other. It counts those that the service refuses.
func (q question) ask(ctx context.Context, p *past, turn, times int) (asked, error) {
	a := asked{question: q.title, history: p, result: result{turn: turn}}
	random := rand.New(rand.NewPCG(uint64(turn), uint64(len(q.title))))
	var latencies []time.Duration
	for range times {
		took, err := q.request(p.plan, random).send(ctx, p.address)
		switch {
		case errors.Is(err, errBusy):
			a.Busy++
		case err != nil:
			return a, fmt.Errorf("%s: %s: %w", p.title(), q.title, err)
		}
		latencies = append(latencies, took)
	}
	a.Over(latencies)
	return a, nil
}

// send sends a request to an address, reads its whole answer and returns how long that took.
func (r request) send(ctx context.Context, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	method, kind := http.MethodPost, "application/json"
	switch {
	case r.body == "":
		method = http.MethodGet
	case strings.HasPrefix(r.path, "/console/"):
		kind = "application/x-www-form-urlencoded"
	}
	asked, err := http.NewRequestWithContext(ctx, method, "http://"+address+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	asked.Header.Set("Content-Type", kind)
	began := time.Now()
	response, err := http.DefaultClient.Do(asked)
	if err != nil {
		return 0, fmt.Errorf("ask: %w", err)
	}
	text, err := io.ReadAll(response.Body)
	took := time.Since(began)
	_ = response.Body.Close()
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the answer: %w", err)
	case response.StatusCode == http.StatusServiceUnavailable:
		return took, errBusy
	case response.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%s %s: status %d: %s", method, r.path, response.StatusCode, tail(text))
	}
	return took, nil
}
