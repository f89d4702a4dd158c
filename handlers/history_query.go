package handlers

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
)

// historyRequest is the query of a request for history, as its address has it.
type historyRequest struct {
	service.HistoryQuery        // its Keys are as the caller writes them
	form                 string // of the answer, or "" if Accept tells
	hasLimit             bool
	types                []event.Type // of events
}

// Names of the parameters of a query for history.
const (
	paramZone       = "zone"
	paramType       = "type"
	paramKey        = "key"
	paramBlocked    = "blocked"
	paramWouldBlock = "would_block"
	paramOutcome    = "outcome"
	paramAttempt    = "attempt_id"
	paramSince      = "since"
	paramUntil      = "until"
	paramOrder      = "order"
	paramLimit      = "limit"
	paramBefore     = "before"
	paramAfter      = "after"
	paramFormat     = "format"
)

// mostKeys is how many keys one query may name.
const mostKeys = 16

// filterParams are the parameters that choose among txns.
func filterParams() []string {
	return []string{paramZone, paramKey, paramBlocked, paramWouldBlock, paramOutcome, paramAttempt}
}

func listParams() []string {
	return append(filterParams(), paramSince, paramUntil, paramOrder, paramLimit, paramBefore, paramAfter, paramFormat)
}

func checkParams() []string {
	return append(filterParams(), paramSince, paramUntil, paramOrder, paramLimit, paramBefore, paramAfter)
}

func followParams() []string { return append(filterParams(), paramAfter) }

// decodeHistory reads a query strictly: a filter with a wrong name would show all txns.
func decodeHistory(raw string, params []string) (historyRequest, error) {
	h := historyRequest{HistoryQuery: service.HistoryQuery{Limit: defaultPage}}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return h, problem.Invalid("The query is not percent-encoded correctly.")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch given := values[name]; {
		case !slices.Contains(params, name):
			return h, problem.Invalid("The query has a parameter that is not known. Known are: " + strings.Join(params, ", ") +
				".")
		case name == paramZone:
			err = h.setZones(given)
		case name == paramKey:
			err = h.setKeys(given)
		case name == paramType:
			err = h.setTypes(given)
		case len(given) > 1:
			return h, problem.Invalid(name + " must be given once.")
		default:
			err = h.set(name, given[0])
		}
		if err != nil {
			return h, err
		}
	}
	return h, h.finish(values.Has(paramBefore), values.Has(paramAfter))
}

func (h *historyRequest) setZones(given []string) error {
	for _, text := range given {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 || id > service.MaxZoneID || len(given) > access.MaxBoundZones {
			return problem.Invalid(
				fmt.Sprintf("zone must be the id of a zone, 1 to %d, and may be given up to %d times.", service.MaxZoneID,
					access.MaxBoundZones))
		}
		h.Zones = append(h.Zones, id)
	}
	slices.Sort(h.Zones)
	h.Zones = slices.Compact(h.Zones)
	return nil
}

func (h *historyRequest) setKeys(given []string) error {
	if len(given) > mostKeys || slices.Contains(given, "") {
		return problem.Invalid(fmt.Sprintf("key must not be empty, and may be given up to %d times.", mostKeys))
	}
	h.Keys = given
	return nil
}

func (h *historyRequest) setTypes(given []string) error {
	for _, text := range given {
		h.types = append(h.types, event.Type(text))
	}
	if err := event.ValidateTypes(h.types); err != nil || len(h.types) > len(event.Types()) {
		return problem.Invalid(fmt.Sprintf("type must be one of %v, or all of a subject, such as zone.*.", event.Types()))
	}
	return nil
}

func (h *historyRequest) set(name, text string) (err error) {
	switch name {
	case paramBlocked:
		h.Blocked, err = parseBool(name, text)
	case paramWouldBlock:
		h.WouldBlock, err = parseBool(name, text)
	case paramOutcome:
		h.Outcome, err = outcomeNamed(text)
	case paramAttempt:
		h.AttemptID = text
		if service.ValidateAttemptID(text) != nil {
			err = problem.Invalid(
				fmt.Sprintf("attempt_id must be 1 to %d printable ASCII characters.", service.MaxAttemptIDLength))
		}
	case paramSince:
		h.Since, err = parseBound(name, text)
	case paramUntil:
		h.Until, err = parseBound(name, text)
	case paramOrder:
		h.Order = service.HistoryOrder(text)
		if h.Order != service.NewestFirst && h.Order != service.OldestFirst {
			err = problem.Invalid("order must be desc, the newest first, or asc.")
		}
	case paramLimit:
		h.hasLimit = true
		if h.Limit, err = strconv.Atoi(text); err != nil || h.Limit < 1 || h.Limit > service.MaxHistoryPage {
			err = problem.Invalid(fmt.Sprintf("limit must be a whole number, 1 to %d.", service.MaxHistoryPage))
		}
	case paramBefore, paramAfter:
		if h.Cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = problem.Invalid(fmt.Sprintf("%s must be an id, a whole number up to %d.", name, uint64(math.MaxUint64)))
		}
	case paramFormat:
		h.form = text
		if !slices.Contains([]string{formJSON, formNDJSON, formCSV}, text) {
			err = problem.Invalid("format must be json, ndjson or csv.")
		}
	}
	return err
}

// finish holds the parameters against one another, and chooses the order if there is none: that of the cursor.
func (h *historyRequest) finish(hasBefore, hasAfter bool) error {
	if h.Order == "" {
		h.Order = service.NewestFirst
		if hasAfter {
			h.Order = service.OldestFirst
		}
	}
	switch isAscending := h.Order == service.OldestFirst; {
	case hasBefore && isAscending:
		return problem.Invalid("before belongs to order=desc. To go on in ascending order, give after.")
	case hasAfter && !isAscending:
		return problem.Invalid("after belongs to order=asc. To go on in descending order, give before.")
	case hasBefore && h.Cursor == 0:
		return problem.Invalid("before must be an id. Leave it out to begin with the newest one.")
	}
	return h.Validate()
}

func parseBool(name, text string) (*bool, error) {
	switch text {
	case "true", "false":
		is := text == "true"
		return &is, nil
	}
	return nil, problem.Invalid(name + " must be true or false.")
}

// outcomeNamed returns the outcome of a name; that of none is empty.
func outcomeNamed(name string) (*service.Outcome, error) {
	outcome := service.Outcome(name)
	switch outcome {
	case service.OutcomeSuccess, service.OutcomeFailure:
	case api.OutcomeNone:
		outcome = ""
	default:
		return nil, problem.Invalid("outcome must be success, failure or none.")
	}
	return &outcome, nil
}

// parseBound reads one end of an interval of time.
func parseBound(name, text string) (time.Time, error) {
	at, ok := parseInstant(text)
	if !ok || at.IsZero() {
		return time.Time{}, problem.Invalid(
			name + " must be an instant by RFC 3339, such as 2026-08-24T09:15:02Z; a + in it is written %2B.")
	}
	return at, nil
}
