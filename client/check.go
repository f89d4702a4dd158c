package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// Check asks whether one attempt may go ahead. The service records the attempt. A
// blocked attempt is an answer, not an error: read Decision.Blocked.
//
// A check without an AttemptID gets one, 26 letters and digits from crypto/rand,
// and is then asked again with the same one, until the deadline of ctx, if the
// service is busy (503), an answer is lost (500, 504, a cut connection, none within
// two seconds), the request was too slow (408) or the connection is refused. It is
// counted once, however often it is asked. Between tries Check waits as long as
// Retry-After says, and for a moment if it says nothing; if that is beyond the
// deadline, the error is returned at once. To ask one check once and
// without an id, which costs the database less, use CheckAll.
//
// While its database is away the service may answer by the settings of the zones: then
// Decision.Degraded is true. Such an attempt is recorded nowhere and has no txn to report.
//
// After many failures in a row the Client stops to ask again, until checks succeed, so that its callers do not multiply
// the load of a service that is down: see budget.
//
// After an error only the caller can decide what to do, here or once for all checks by WithOnError. Fail closed: refuse
// the login; then an attacker who can overload the service locks everybody out. Fail open: let the login pass without a
// limit; then such an attacker can guess passwords without one. A login server for consumers mostly fails open with a
// coarse local limit, one for administrators fails closed. In both cases give ctx a short deadline, such as a second,
// and raise an alarm. Errors that wrap service.ErrInvalid or service.ErrNotFound are mistakes in the program or its
// configuration, which waiting does not mend.
func (c *Client) Check(ctx context.Context, check service.Check) (d service.Decision, err error) {
	began, o := time.Now(), Observation{Action: actionCheck, Batch: 1}
	failed := error(nil) // is observed also where a policy answers
	defer func() { c.observe(ctx, began, o, failed) }()
	if failed = check.Validate(); failed != nil {
		failed = fmt.Errorf("check: %w", failed)
		return service.Decision{}, failed
	}
	if check.AttemptID == "" {
		check.AttemptID = rand.Text()
	}
	failed = c.retry(ctx, &o, func(ctx context.Context) (err error) {
		d, err = c.try(ctx, check, &o)
		return err
	})
	if failed != nil {
		d, err = c.decideWithout(ctx, check, failed)
	}
	o.Degraded = d.Degraded
	return d, err
}

// try asks a check once, alone or along with others.
func (c *Client) try(ctx context.Context, check service.Check, o *Observation) (service.Decision, error) {
	if c.coalescer == nil {
		return c.askOne(ctx, check)
	}
	a, isSent, left := c.coalescer.check(ctx, check)
	switch {
	case left != nil && isSent:
		return service.Decision{}, c.cutOff(checkRequest(), left)
	case left != nil:
		return service.Decision{}, c.unreached(checkRequest(), left)
	}
	o.Batch = a.batchSize
	return a.decision, a.err
}

func checkRequest() request {
	return request{action: actionCheck, method: http.MethodPost, path: "/v1/check"}
}

// askOne asks a check alone.
func (c *Client) askOne(ctx context.Context, check service.Check) (service.Decision, error) {
	r := checkRequest()
	r.body = check
	answer, err := ask[service.Decision](ctx, c, r)
	if err == nil && !fits(answer, check) {
		err = c.unreadable(r, "the answer does not fit the check")
	}
	if err != nil {
		return service.Decision{}, err
	}
	return answer, nil
}

// askBatch asks checks of several callers, which are valid, and returns an answer for each.
func (c *Client) askBatch(ctx context.Context, checks []service.Check) []answerOf {
	if len(checks) == 1 { // without the detour that the service has for many
		d, err := c.askOne(ctx, checks[0])
		return []answerOf{{decision: d, err: err, batchSize: 1}}
	}
	decisions, err := c.checkAll(ctx, checks)
	answers := make([]answerOf, len(checks))
	for i := range answers {
		a := answerOf{err: err, batchSize: len(checks)}
		switch {
		case err != nil:
		case decisions[i].Err != nil:
			a.err = c.refusedAmong(decisions[i].Err)
		default:
			a.decision = decisions[i]
		}
		answers[i] = a
	}
	return answers
}

// CheckAll implements service.Checker: it asks up to service.MaxChecks checks
// in one call, in their order. It asks once and repeats nothing. A check whose
// Decision.Err wraps service.ErrBusy can be asked again. Invalid checks are refused
// without asking.
func (c *Client) CheckAll(ctx context.Context, checks []service.Check) (decisions []service.Decision, err error) {
	began, o := time.Now(), Observation{Action: actionCheck, Attempts: 1, Batch: len(checks)}
	defer func() {
		o.Degraded = slices.ContainsFunc(decisions, func(d service.Decision) bool { return d.Degraded })
		c.observe(ctx, began, o, err)
	}()
	return c.checkAll(ctx, checks)
}

func (c *Client) checkAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(checks))
	var question api.Checks
	var asked []int // the indexes in checks of those that are asked
	for i, check := range checks {
		if err := check.Validate(); err != nil {
			decisions[i].Err = err
			continue
		}
		question.Checks, asked = append(question.Checks, check), append(asked, i)
	}
	if len(asked) == 0 {
		return decisions, nil
	}
	r := request{action: "ask checks", method: http.MethodPost, path: pathChecks, body: question}
	answer, err := ask[api.Results](ctx, c, r)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(asked) {
		return nil, c.unreadable(r, fmt.Sprintf("%d answers to %d checks", len(answer.Results), len(asked)))
	}
	for i, index := range asked {
		if decisions[index], err = decisionOf(answer.Results[i], checks[index]); err != nil {
			return nil, c.unreadable(r, fmt.Sprintf("answer %d: %v", i, err))
		}
	}
	return decisions, nil
}

// decisionOf returns the answer to one of several checks, which must fit it.
func decisionOf(result api.Result, check service.Check) (service.Decision, error) {
	switch {
	case (result.Decision == nil) == (result.Problem == nil):
		return service.Decision{}, errors.New("it must be either a decision or a problem")
	case result.Problem != nil:
		return service.Decision{Err: result.Problem}, nil
	case !fits(*result.Decision, check):
		return service.Decision{}, errors.New("it does not fit its check")
	}
	return *result.Decision, nil
}

// fits reports whether an answer is a decision about the buckets of check. Their keys may differ, because
// the service answers them normalised. A decision that is not degraded was recorded, and says so.
func fits(answer service.Decision, check service.Check) bool {
	isRecorded := answer.TxnID() != 0 && !answer.CheckedAt.IsZero()
	if len(answer.Verdicts) != len(check.Buckets) || isRecorded == answer.Degraded {
		return false
	}
	for i, b := range check.Buckets {
		if answer.Verdicts[i].ZoneID != b.ZoneID {
			return false
		}
	}
	return true
}
