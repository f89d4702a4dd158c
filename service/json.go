package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The JSON of most nouns is that of their tags. Here stand those with members that are there or not by other members.

// MarshalJSON implements json.Marshaler. The rate is there for a limit alone: there 0 is a rate.
func (o Override) MarshalJSON() ([]byte, error) {
	type plain Override
	if o.Action == OverrideLimit {
		return json.Marshal(plain(o))
	}
	return json.Marshal(struct {
		plain
		Rate *int `json:"rate,omitzero"`
	}{plain: plain(o)})
}

// OverrideRequest is an Override as a request has it: without its ids, which the path names.
type OverrideRequest Override

// MarshalJSON implements json.Marshaler.
func (o OverrideRequest) MarshalJSON() ([]byte, error) {
	type plain Override
	type request struct {
		plain
		ID        *int   `json:"id,omitzero"`
		ZoneID    *int   `json:"zone_id,omitzero"`
		Reason    string `json:"reason,omitzero"`
		CreatedBy string `json:"created_by,omitzero"`
	}
	asked := request{plain: plain(o), Reason: o.Reason, CreatedBy: o.CreatedBy}
	if o.Action == OverrideLimit {
		return json.Marshal(asked)
	}
	return json.Marshal(struct {
		request
		Rate *int `json:"rate,omitzero"`
	}{request: asked})
}

// MarshalJSON implements json.Marshaler.
func (p Peek) MarshalJSON() ([]byte, error) {
	type plain Peek
	if p.Txns == nil {
		p.Txns = []Txn{}
	}
	if !p.Unmetered {
		return json.Marshal(plain(p))
	}
	return json.Marshal(struct {
		plain
		Velocity  *int `json:"velocity,omitzero"`
		Remaining *int `json:"remaining,omitzero"`
	}{plain: plain(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Peek) UnmarshalJSON(text []byte) error {
	type plain Peek
	var read struct {
		plain
		Velocity *int `json:"velocity"`
	}
	err := json.Unmarshal(text, &read)
	*p = Peek(read.plain)
	if p.Unmetered = read.Velocity == nil; p.Unmetered {
		p.Remaining = 0
	} else {
		p.Velocity = *read.Velocity
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Verdict) UnmarshalJSON(text []byte) error {
	type plain Verdict
	var read struct {
		plain
		Velocity *int `json:"velocity"`
	}
	err := json.Unmarshal(text, &read)
	*v = Verdict(read.plain)
	if v.Unmetered = read.Velocity == nil; !v.Unmetered {
		v.Velocity = *read.Velocity
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler. The buckets give the txn and retry_after of the whole, and the remaining
// attempts. Of a degraded decision nothing remains.
func (d *Decision) UnmarshalJSON(text []byte) error {
	type plain Decision
	var read struct {
		plain
		TxnID uint64 `json:"txn_id,string"`
	}
	err := json.Unmarshal(text, &read)
	if *d = Decision(read.plain); err == nil && len(d.Verdicts) > 0 && read.TxnID != d.TxnID() {
		err = errors.New("the txn of a decision is not that of its first bucket")
	}
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; d.Degraded && v.Unmetered {
			v.Unmetered, v.Velocity = false, v.Rate
		}
	}
	return err
}

// The answers of checks are encoded by hand: they are the most frequent answers, and a JSON library takes five times as
// long.

// MarshalJSON implements json.Marshaler. It fails only if a key is not valid UTF-8.
func (d Decision) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// AppendJSON appends the decision as MarshalJSON writes it.
func (d Decision) AppendJSON(b []byte) (_ []byte, err error) {
	b = strconv.AppendBool(append(b, `{"blocked":`...), d.Blocked)
	b = strconv.AppendBool(append(b, `,"would_block":`...), d.WouldBlock)
	if d.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	b = appendID(b, `,"txn_id":"`, d.TxnID())
	b = strconv.AppendInt(append(b, `,"retry_after":`...), WholeSeconds(d.RetryAfter()), 10)
	if !d.CheckedAt.IsZero() {
		b = append(d.CheckedAt.Append(append(b, `,"checked_at":"`...)), '"')
	}
	b = append(b, `,"buckets":[`...)
	for i, v := range d.Verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = v.appendJSON(b, d.Degraded || v.Unmetered); err != nil {
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
	return append(strconv.AppendUint(append(b, name...), id, 10), '"')
}

// appendJSON appends the answer for one bucket of a check, without figures if nothing was counted.
func (v Verdict) appendJSON(b []byte, uncounted bool) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"zone_id":`...), v.Bucket.ZoneID, 10)
	b, err := appendText(append(b, `,"bucket_key":`...), v.Bucket.Key)
	b = strconv.AppendBool(append(b, `,"blocked":`...), v.Blocked)
	b = strconv.AppendBool(append(b, `,"would_block":`...), v.WouldBlock)
	if v.Reason != "" {
		b = append(append(append(b, `,"reason":"`...), v.Reason...), '"')
	}
	b = appendID(b, `,"override_id":"`, v.OverrideID)
	b = appendID(b, `,"txn_id":"`, v.TxnID)
	b = strconv.AppendInt(append(b, `,"rate":`...), int64(v.Rate), 10)
	b = strconv.AppendInt(append(b, `,"window":`...), WholeSeconds(v.Window.Duration), 10)
	if !uncounted {
		b = strconv.AppendInt(append(b, `,"velocity":`...), int64(v.Velocity), 10)
		b = strconv.AppendInt(append(b, `,"remaining":`...), int64(v.Remaining()), 10)
	}
	b = strconv.AppendInt(append(b, `,"retry_after":`...), WholeSeconds(v.RetryAfter.Duration), 10)
	if v.ResetAfter.Duration > 0 {
		b = strconv.AppendInt(append(b, `,"reset_after":`...), WholeSeconds(v.ResetAfter.Duration), 10)
	}
	return append(b, '}'), err
}

// appendText appends a text with its quotes. It escapes no more than JSON asks for.
func appendText(b []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return b, errors.New("a text is not valid UTF-8")
	}
	const escaped, letters = "\"\\\b\t\n\f\r", `"\btnfr`
	b = append(b, '"')
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			b = append(b, c)
		} else if at := strings.IndexByte(escaped, c); at >= 0 {
			b = append(b, '\\', letters[at])
		} else {
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"'), nil
}
