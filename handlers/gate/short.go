package gate

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"velocityd/service"
)

// Names of the header fields of the short form, in the canonical form of net/http.
const (
	fieldZone    = "X-Velocity-Zone"
	fieldKey     = "X-Velocity-Key"
	fieldAttempt = "X-Velocity-Attempt"
)

const (
	// ofClient as a key stands for the address that the request comes from.
	ofClient = "@client"
	// inHeader as the attempt says that it stands in a header.
	inHeader = "@header"
)

// Short returns the question of a request that names zones and keys itself: in the parameters zone and key of the
// address, or in the headers X-Velocity-Zone and X-Velocity-Key, in pairs. A request with these parameters has only
// them: gateways pass on the headers of end users. For the same reason an attempt id in the header X-Velocity-Attempt
// counts only if the address says attempt=@header. Otherwise the end user could write the header, always with the same
// id, and each guess would get the answer of the first one. The errors wrap service.ErrInvalid, or are those of r.
func Short(r *Request) (Question, error) {
	query, err := r.query()
	if err != nil {
		return Question{}, err
	}
	for name := range query {
		if !slices.Contains([]string{"zone", "key", "attempt", "allow", "deny"}, name) {
			return Question{}, wrong(
				"the address has a parameter that is not known: zone, key, attempt, allow and deny are known")
		}
	}
	q := Question{Answer: DefaultAnswer()}
	if err := q.Answer.override(query); err != nil {
		return Question{}, err
	}
	zones, keys := query["zone"], query["key"]
	byHeader := len(zones)+len(keys) == 0
	if byHeader {
		if zones, err = r.header(fieldZone); err == nil {
			keys, err = r.header(fieldKey)
		}
		if err != nil {
			return Question{}, wrong("%v", err)
		}
	}
	if q.Check.Buckets, err = r.pairs(zones, keys); err != nil {
		return Question{}, err
	}
	q.Check.AttemptID, err = r.attempt(query, byHeader)
	return q, err
}

// wrong returns an error of a gateway's request. The text must not hold any of its values.
func wrong(text string, args ...any) error {
	return fmt.Errorf("%w: "+text, append([]any{service.ErrInvalid}, args...)...)
}

// pairs returns the buckets of zones and keys that stand side by side.
func (r *Request) pairs(zones, keys []string) ([]service.Bucket, error) {
	if len(zones) == 0 && len(keys) == 0 {
		return nil, wrong(
			"the request names no zone and no key: give zone=1&key=... in the address, or the headers %s and %s",
			fieldZone, fieldKey)
	}
	if len(zones) != len(keys) {
		return nil, wrong(
			"the request names %d zones and %d keys: give one key for each zone; "+
				"a gateway may leave out a header that is empty",
			len(zones), len(keys))
	}
	buckets := make([]service.Bucket, len(zones))
	for i, zone := range zones {
		id, err := strconv.ParseUint(zone, 10, 63)
		if err != nil || strings.HasPrefix(zone, "0") {
			return nil, wrong("zone %d of the request is not a whole number, such as 1", i+1)
		}
		key := keys[i]
		if key == ofClient {
			if key, err = r.client(); err != nil {
				return nil, err
			}
		}
		if key == "" {
			return nil, wrong("key %d of the request is empty", i+1)
		}
		buckets[i] = service.Bucket{ZoneID: int64(id), Key: key}
	}
	return buckets, nil
}

// attempt returns the attempt id that the request names, or "".
func (r *Request) attempt(query url.Values, byHeader bool) (string, error) {
	given := query["attempt"]
	sent, err := r.header(fieldAttempt)
	switch {
	case err != nil && (byHeader || slices.Contains(given, inHeader)):
		return "", wrong("%v", err)
	case len(given) > 1:
		return "", wrong("attempt is given several times")
	case len(given) == 0 && byHeader && len(sent) > 0:
		return "", wrong("%s counts only if the address says attempt=%s, because end users can send this header, too: let "+
			"the gateway set it for each request, and add the parameter", fieldAttempt, inHeader)
	case len(given) == 0:
		return "", nil
	case given[0] != inHeader:
		if given[0] == "" {
			return "", wrong("attempt is empty: leave it out, or give an id")
		}
		return given[0], nil
	case len(sent) != 1 || sent[0] == "":
		return "", wrong("the address says attempt=%s, and the request has not one header %s", inHeader, fieldAttempt)
	}
	return sent[0], nil
}

// override takes over the statuses that the address names.
func (a *Answer) override(query url.Values) error {
	for _, c := range []struct {
		name    string
		status  *int
		allowed []int
	}{{"allow", &a.Allow, allows()}, {"deny", &a.Deny, denies()}} {
		given, ok := query[c.name]
		if !ok {
			continue
		}
		status, err := strconv.Atoi(given[0])
		if len(given) > 1 || err != nil || !slices.Contains(c.allowed, status) {
			return wrong("%s of the address must be %s, once", c.name, oneOf(c.allowed))
		}
		*c.status = status
	}
	return nil
}

// oneOf writes statuses as "401, 403 or 429".
func oneOf(statuses []int) string {
	var texts []string
	for _, status := range statuses {
		texts = append(texts, strconv.Itoa(status))
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}
