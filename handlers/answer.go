package handlers

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/service"
)

// The answers of checks are encoded by hand: they are the most frequent answers, and
// the JSON library takes five times as long. Tests compare them with what the library
// makes of the types of package api.

// respondAppended answers with the JSON that encode appends.
func (s *server) respondAppended(x *exchange, encode func([]byte) ([]byte, error)) error {
	answer := s.buffers.take()
	defer s.buffers.giveBack(answer)
	body, err := encode(answer.AvailableBuffer())
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	answer.Write(body) // copies only if body has outgrown the buffer
	x.set(fieldCacheControl, "no-store")
	x.respond(http.StatusOK, api.MediaJSON, answer.Bytes())
	return nil
}

// appendDecision appends the answer for a whole check, as JSON. It fails only if a
// key is not valid UTF-8.
func appendDecision(b []byte, d service.Decision) (_ []byte, err error) {
	b = strconv.AppendBool(append(b, `{"blocked":`...), d.Blocked)
	b = strconv.AppendBool(append(b, `,"would_block":`...), d.WouldBlock)
	if d.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	b = appendID(b, `,"txn_id":`, d.TxnID())
	b = strconv.AppendInt(append(b, `,"retry_after":`...), service.WholeSeconds(d.RetryAfter()), 10)
	if !d.CheckedAt.IsZero() {
		b = append(api.Instant(d.CheckedAt.Time).Append(append(b, `,"checked_at":"`...)), '"')
	}
	b = append(b, `,"buckets":[`...)
	for i, v := range d.Verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendVerdict(b, v, d.Degraded || v.Unmetered); err != nil {
			return b, err
		}
	}
	return append(b, "]}"...), nil
}

// appendID appends a member, unless there is no such id.
func appendID(b []byte, name string, id uint64) []byte {
	if id == 0 {
		return b
	}
	return api.ID(id).AppendTo(append(b, name...))
}

// appendVerdict appends the answer for one bucket of a check, without figures if nothing was counted.
func appendVerdict(b []byte, v service.Verdict, uncounted bool) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"zone_id":`...), v.Bucket.ZoneID, 10)
	b, err := jsontext.AppendQuote(append(b, `,"bucket_key":`...), v.Bucket.Key)
	b = strconv.AppendBool(append(b, `,"blocked":`...), v.Blocked)
	b = strconv.AppendBool(append(b, `,"would_block":`...), v.WouldBlock)
	if v.Reason != "" {
		b = append(append(append(b, `,"reason":"`...), v.Reason...), '"')
	}
	b = appendID(b, `,"override_id":`, v.OverrideID)
	b = appendID(b, `,"txn_id":`, v.TxnID)
	b = strconv.AppendInt(append(b, `,"rate":`...), int64(v.Rate), 10)
	b = strconv.AppendInt(append(b, `,"window":`...), service.WholeSeconds(v.Window.Duration), 10)
	if !uncounted {
		b = strconv.AppendInt(append(b, `,"velocity":`...), int64(v.Velocity), 10)
		b = strconv.AppendInt(append(b, `,"remaining":`...), int64(v.Remaining()), 10)
	}
	b = strconv.AppendInt(append(b, `,"retry_after":`...), service.WholeSeconds(v.RetryAfter.Duration), 10)
	if v.ResetAfter.Duration > 0 {
		b = strconv.AppendInt(append(b, `,"reset_after":`...), service.WholeSeconds(v.ResetAfter.Duration), 10)
	}
	return append(b, '}'), err
}

// appendResults appends the answers of several checks: the decision of each, or the
// problem made of its Err.
func appendResults(b []byte, decisions []service.Decision) (_ []byte, err error) {
	b = append(b, `{"results":[`...)
	for i, d := range decisions {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendResult(b, d); err != nil {
			return b, err
		}
	}
	return append(b, "]}"...), nil
}

func appendResult(b []byte, d service.Decision) (_ []byte, err error) {
	if d.Err == nil {
		b, err = appendDecision(append(b, `{"decision":`...), d)
		return append(b, '}'), err
	}
	text, err := json.Marshal(problemOf(d.Err))
	return append(append(append(b, `{"problem":`...), text...), '}'), err
}
