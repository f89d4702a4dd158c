package handlers

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/audit"
)

// pathAudit is the path of listAudit.
const pathAudit = "/v1/audit"

// Names of the parameters of a query for the audit alone.
const (
	paramSubject = "subject"
	paramAction  = "action"
	paramBy      = "by"
)

// listAudit answers GET /v1/audit with one page. A caller that is bound to zones gets the entries of these zones alone,
// and so none about tokens and webhooks.
func (s *server) listAudit(x *exchange) error {
	query, err := decodeAudit(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	chosen, err := s.historyQuery(x, historyRequest{HistoryQuery: service.HistoryQuery{Zones: query.Zones, Keys: query.Keys}})
	if err != nil {
		return err
	}
	query.Zones, query.Keys = chosen.Zones, chosen.Keys
	return s.show(x, "", func(ctx context.Context) (any, error) {
		page, err := s.Reader.AuditEntries(ctx, query)
		for i := range page.Entries {
			if x.caller.IsBound() && page.Entries[i].Action == "export" {
				page.Entries[i].After = withoutAttempt(page.Entries[i].After)
			}
		}
		return page, err
	})
}

// decodeAudit reads a query strictly.
func decodeAudit(raw string) (audit.Query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return audit.Query{}, problem.Invalid("The query is not percent-encoded correctly.")
	}
	q := audit.Query{Subjects: values[paramSubject], Actions: values[paramAction], By: values.Get(paramBy)}
	if len(values[paramBy]) > 1 || values.Has(paramBy) && q.By == "" {
		return q, problem.Invalid("by must be given once, and not be empty.")
	}
	params := []string{paramZone, paramSubject, paramAction, paramBy, paramKey, paramSince, paramUntil, paramLimit, paramBefore}
	for _, name := range params[1:4] {
		values.Del(name)
	}
	h, err := decodeHistory(values.Encode(), params)
	if err != nil {
		return q, err
	}
	q.Zones, q.Keys, q.Since, q.Until, q.Cursor, q.Limit = h.Zones, h.Keys, h.Since, h.Until, h.Cursor, h.Limit
	if q.Validate() != nil || len(q.Subjects) > len(audit.Subjects()) ||
		len(q.Actions) > len(audit.Actions()) {
		return q, problem.Invalid(fmt.Sprintf("subject must be one of %s; action must be one of %s; limit must be 1 to %d.",
			strings.Join(audit.Subjects(), ", "), strings.Join(audit.Actions(), ", "), audit.MaxPage))
	}
	return q, nil
}

// withoutAttempt returns the filter of an export without its attempt id, which is the secret of the login server that
// sent it.
func withoutAttempt(filter []byte) []byte {
	var members map[string]jsontext.Value
	if json.Unmarshal(filter, &members) != nil {
		return nil
	}
	delete(members, paramAttempt)
	text, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return text
}
