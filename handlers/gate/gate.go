// Package gate owns the question of a gateway: which buckets a request asks about, by the file of named gates or by the
// request itself, and with which statuses the answer is given; and which buckets the descriptors of Envoy's Rate Limit
// Service name, by the domains of that file. It must not know how a check is decided, the rights of callers, or Echo.
package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"velocityd/service"
)

// Busy is the answer of a gate when the service cannot decide.
type Busy string

// The answers of a gate that cannot decide.
const (
	BusyFails  Busy = "503"   // as on other paths: with 503, 504 or 500
	BusyAllows Busy = "allow" // as if the attempt were allowed
	BusyDenies Busy = "deny"  // as if the attempt were blocked
)

// Answer says how a gate answers. Gateways act on the status alone.
type Answer struct {
	Allow int // 200 or 204
	Deny  int // 401, 403 or 429
	Busy  Busy
}

// DefaultAnswer returns the answer of a gate that names no other one.
func DefaultAnswer() Answer { return Answer{http.StatusNoContent, http.StatusForbidden, BusyFails} }

// allows and denies are the statuses that an Answer can have.
func allows() []int { return []int{http.StatusOK, http.StatusNoContent} }

func denies() []int {
	return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}
}

// Question is a check that a gateway asks for.
type Question struct {
	Check service.Check
	Answer
}

// Gate is a named gate of the file.
type Gate struct {
	Name    string
	Buckets []Bucket
	Attempt Source // of the attempt id; the zero value is none
	Answer
}

// Bucket says where in a request the key of a bucket stands.
type Bucket struct {
	Zone       int64
	Key        Source
	IsOptional bool // the bucket is left out if the request has no key for it
}

// Question returns the question of a request. isBelow says that the path of the request goes on below that of the
// gate: its query is then the end user's, and does not change the answer. The errors wrap service.ErrInvalid, or are
// those of r. They never repeat a value of the request.
func (g Gate) Question(r *Request, isBelow bool) (Question, error) {
	q := Question{Answer: g.Answer}
	if !isBelow {
		query, err := r.query()
		if err == nil {
			err = q.Answer.override(query)
		}
		if err != nil {
			return Question{}, err
		}
	}
	for _, b := range g.Buckets {
		key, err := b.Key.read(r)
		switch {
		case err == nil:
			q.Check.Buckets = append(q.Check.Buckets, service.Bucket{ZoneID: b.Zone, Key: key})
		case r.fault != nil:
			return Question{}, r.fault
		case !b.IsOptional || !errors.Is(err, errMissing) || errors.Is(err, errOtherKind) && !g.readsBothKinds():
			return Question{}, fmt.Errorf("%w: gate %s, zone %d: %w", service.ErrInvalid, g.Name, b.Zone, err)
		}
	}
	if len(q.Check.Buckets) == 0 {
		return Question{}, fmt.Errorf("%w: gate %s: the request has no key for any of its buckets", service.ErrInvalid,
			g.Name)
	}
	if isBelow && g.Attempt.Kind == Query {
		return Question{}, wrong("gate %s: below its path the query is the end user's, so he would choose the attempt id: "+
			"let the gateway set it in a header, and let the member attempt name that", g.Name)
	}
	id, err := g.AttemptID(r)
	q.Check.AttemptID = id
	return q, err
}

// readsBothKinds reports whether the gate has keys for a form and for JSON, so that the body may be of either kind. An
// application that reads one kind alone may not look at the Content-Type: with a wrong one, an end user would else
// have an optional bucket left out.
func (g Gate) readsBothKinds() bool {
	has := func(kind Kind) bool {
		return slices.ContainsFunc(g.Buckets, func(b Bucket) bool { return b.Key.Kind == kind })
	}
	return has(Form) && has(JSON)
}

// Report returns the report of a request about how a login ended: its attempt id stands where the gate looks for
// that, and the outcome in the address. The errors are as those of Question.
func (g Gate) Report(r *Request) (service.Report, error) {
	if g.Attempt == (Source{}) {
		return service.Report{}, wrong(
			"gate %s takes no attempt id, so nothing tells which login has ended: give it the member attempt", g.Name)
	}
	query, err := r.query()
	if err != nil {
		return service.Report{}, err
	}
	given := query["outcome"]
	if len(given) != 1 {
		return service.Report{}, wrong("outcome of the address must be success or failure, once")
	}
	id, err := g.AttemptID(r)
	if err == nil && id == "" {
		err = wrong("gate %s, attempt id: %v is missing or empty", g.Name, g.Attempt)
	}
	report := service.Report{AttemptID: id, Outcome: service.Outcome(given[0])}
	if err == nil {
		err = report.Validate()
	}
	return report, err
}

// AttemptID returns the attempt id of a request, or "" if it has none.
func (g Gate) AttemptID(r *Request) (string, error) {
	if g.Attempt == (Source{}) {
		return "", nil
	}
	id, err := g.Attempt.read(r)
	if r.fault != nil {
		return "", r.fault
	}
	if err != nil && !errors.Is(err, errMissing) {
		return "", fmt.Errorf("%w: gate %s, attempt id: %w", service.ErrInvalid, g.Name, err)
	}
	return id, nil
}
