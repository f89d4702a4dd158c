package console

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// filter is the filters of a page of history. Each is a value in its address, so that a reader can keep it and pass it
// on.
type filter struct {
	query  service.HistoryQuery
	values url.Values // those that are given, in the address' own form
	// Key is the bucket of the filter by key, or nil. Its address has the key sealed.
	Key *service.Bucket
}

// timeLayout is how a browser writes the time of a field, and shortTimeLayout how it does so at a full minute.
const (
	timeLayout      = "2006-01-02T15:04:05"
	shortTimeLayout = "2006-01-02T15:04"
)

// decisions are the choices of the filter by decision.
func decisions() map[string]func(*service.HistoryQuery) {
	return map[string]func(*service.HistoryQuery){
		"true":     func(q *service.HistoryQuery) { q.Blocked = new(true) },
		"false":    func(q *service.HistoryQuery) { q.Blocked = new(false) },
		"would_be": func(q *service.HistoryQuery) { q.WouldBlock = new(true) }, // also where the zone is a shadow
	}
}

// outcomes are the choices of the filter by outcome.
func outcomes() map[string]service.Outcome {
	return map[string]service.Outcome{
		"success": service.OutcomeSuccess, "failure": service.OutcomeFailure,
		api.OutcomeNone: "",
	}
}

// lengths are the choices of the filter by age.
func lengths() map[string]time.Duration {
	return map[string]time.Duration{recently: 15 * time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
}

// filter reads filters from the values of an address. One that is empty lets everything pass, and one that cannot be
// read is an error: a filter that is overlooked would show the attempts of all.
func (v *visit) filter(values url.Values) (filter, error) {
	f := filter{query: service.HistoryQuery{Order: service.NewestFirst, Limit: historyPage}, values: url.Values{}}
	for name, given := range values {
		if name == "done" || len(given) == 1 && given[0] == "" {
			continue
		}
		if len(given) > 1 || !f.set(v, name, given[0]) {
			return f, badFilter(name)
		}
		f.values.Set(name, given[0])
	}
	if f.Key != nil {
		f.query.Zones = []int64{f.Key.ZoneID}
		f.values.Del("zone")
	}
	if q := f.query; !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return f, badFilter("until")
	}
	return f, nil
}

// set reads one value, and reports whether that could be done.
func (f *filter) set(v *visit, name, text string) (ok bool) {
	var err error
	switch name {
	case "zone":
		var zone int64
		zone, err = strconv.ParseInt(text, 10, 64)
		f.query.Zones = []int64{zone}
		return err == nil && zone >= 1 && zone <= service.MaxZoneID
	case "key":
		bucket, ok := v.openKey(text)
		f.Key, f.query.Keys = &bucket, []string{bucket.Key}
		return ok
	case "blocked":
		choose, ok := decisions()[text]
		if ok {
			choose(&f.query)
		}
		return ok
	case "outcome":
		outcome, ok := outcomes()[text]
		f.query.Outcome = &outcome
		return ok
	case "within":
		length, ok := lengths()[text]
		if f.query.Since.IsZero() {
			f.query.Since = v.Now().Add(-length)
		}
		return ok
	case "since":
		f.query.Since, err = parseTime(text)
	case "until":
		f.query.Until, err = parseTime(text)
	case "attempt_id":
		f.query.AttemptID = text
		err = service.ValidateAttemptID(text)
	case "before":
		f.query.Cursor, err = strconv.ParseUint(text, 10, 64)
	case "live":
		return text == "on"
	default:
		return false
	}
	return err == nil
}

// parseTime reads an instant of a field of time, in UTC.
func parseTime(text string) (at time.Time, err error) {
	for _, layout := range []string{timeLayout, shortTimeLayout, time.RFC3339} {
		if at, err = time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return at, err
}

// badFilter is the problem of a filter that cannot be read.
func badFilter(name string) error {
	sentences := map[string]string{
		"key": "The key in this address was sealed by a console that has ended, or for another one. Search for the " +
			"key again.",
		"until":      "The end of the time must be behind its begin, and both must be like 2026-08-24T09:15:00, in UTC.",
		"since":      "The begin of the time must be like 2026-08-24T09:15:00, in UTC.",
		"attempt_id": "An attempt id has 1 to 64 printable characters of ASCII.",
	}
	sentence, ok := sentences[name]
	if !ok {
		sentence = "A filter in this address cannot be read. The form of the page makes addresses that can."
	}
	return &api.Problem{Title: "This filter cannot be read", Status: http.StatusBadRequest, Detail: sentence}
}

// Value returns the value of a filter, as the address has it.
func (f filter) Value(name string) string { return f.values.Get(name) }

// Time returns the value of a filter by time, as a field of time takes it.
func (f filter) Time(name string) string {
	at, err := parseTime(f.values.Get(name))
	if err != nil {
		return ""
	}
	return at.Format(timeLayout)
}

// IsLive reports whether the page renews itself: it does so at the newest end of the history alone.
func (f filter) IsLive() bool { return f.Value("live") == "on" && f.query.Cursor == 0 }

// IsOlder reports whether the page is behind another one.
func (f filter) IsOlder() bool { return f.query.Cursor != 0 }

// IsAny reports whether attempts are filtered at all.
func (f filter) IsAny() bool { return len(f.kept("live", "before")) > 0 }

// HasMore reports whether one of the filters is set that stand behind "More filters".
func (f filter) HasMore() bool {
	return f.Value("outcome")+f.Value("since")+f.Value("until")+f.Value("attempt_id") != ""
}

// kept returns the values of the address but for some.
func (f filter) kept(without ...string) url.Values {
	values := maps.Clone(f.values)
	for _, name := range without {
		values.Del(name)
	}
	return values
}

// Path returns the path of a page with these filters but for some.
func (f filter) Path(page string, without ...string) string {
	return withQuery(page, f.kept(without...))
}

// Older returns the path of the following page.
func (f filter) Older(next uint64) string {
	values := f.kept("live")
	values.Set("before", strconv.FormatUint(next, 10))
	return withQuery("history", values)
}

// withQuery returns the path of a page with values in its address.
func withQuery(page string, values url.Values) string {
	if len(values) == 0 {
		return Path + page
	}
	return Path + page + "?" + values.Encode()
}

// addressTime returns an instant as addresses have it, to the microsecond: a list that begins at the full second before
// would hold more than the number that leads to it.
func addressTime(at time.Time) string { return at.UTC().Format(timeLayout + ".999999") }

// historyPath returns the path of the attempts of a bucket from an instant on. filters are names and values of further
// ones.
func (c *console) historyPath(bucket service.Bucket, since time.Time, filters ...string) string {
	values := url.Values{"key": {c.sealedKey(bucket)}, "since": {addressTime(since)}}
	for i := 1; i < len(filters); i += 2 {
		values.Set(filters[i-1], filters[i])
	}
	return withQuery("history", values)
}
