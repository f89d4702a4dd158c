package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Check asks whether one attempt may go ahead, and has it recorded. A blocked
// attempt is an answer and no error: read Decision.Blocked.
//
// A check without an AttemptID gets one, 26 letters and digits from crypto/rand,
// and is then asked again with the same one, until the deadline of ctx, if the
// service is busy (503), an answer is lost (504, a cut connection) or nobody
// listens. It is counted once, however often it is asked. Between tries Check
// waits as long as Retry-After says, and for a moment if it says nothing; if that
// is beyond the deadline, the error is returned at once. To ask one check once and
// without an id, which costs the database less, use CheckAll.
//
// An error leaves a choice that only the caller can make. Fail closed: refuse the
// login, and whoever can keep the service from answering keeps everybody out. Fail
// open: let it pass without a limit, and whoever can keep the service from
// answering guesses passwords at will. A login server of consumers mostly fails
// open with a coarse limit of its own, one of administrators closed. Whatever is
// chosen, give ctx a deadline that the login can bear, such as a second, and have
// somebody told. Errors that wrap service.ErrInvalid or service.ErrNotFound are
// mistakes in the program or its configuration, which waiting does not mend.
func (c *Client) Check(ctx context.Context, check service.Check) (service.Decision, error) {
	if err := check.Validate(); err != nil {
		return service.Decision{}, fmt.Errorf("check: %w", err)
	}
	if check.AttemptID == "" {
		check.AttemptID = rand.Text()
	}
	r := request{action: "check", method: http.MethodPost, path: "/v1/check", body: api.NewCheck(check)}
	var decision service.Decision
	err := c.insist(ctx, func(ctx context.Context) error {
		answer, err := ask[api.Decision](ctx, c, r)
		if err == nil && !fits(answer, check) {
			err = c.unreadable(r, "the answer does not fit the check")
		}
		decision = answer.Decision()
		return err
	})
	if err != nil {
		return service.Decision{}, err
	}
	return decision, nil
}

// CheckAll implements service.CheckStore: it asks up to service.MaxChecks checks
// in one call, in their order. It asks once and repeats nothing; a check of which
// the decision's Err wraps service.ErrBusy can be asked again. Checks that are
// wrong in themselves are refused without asking.
func (c *Client) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(checks))
	var question api.Checks
	var places []int // of what is asked in checks
	for i, check := range checks {
		if err := check.Validate(); err != nil {
			decisions[i].Err = err
			continue
		}
		question.Checks, places = append(question.Checks, api.NewCheck(check)), append(places, i)
	}
	if len(places) == 0 {
		return decisions, nil
	}
	r := request{action: fmt.Sprintf("check %d attempts", len(places)), method: http.MethodPost, path: "/v1/checks", body: question}
	answer, err := ask[api.Results](ctx, c, r)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(places) {
		return nil, c.unreadable(r, fmt.Sprintf("%d answers to %d checks", len(answer.Results), len(places)))
	}
	for i, place := range places {
		if decisions[place], err = decisionOf(answer.Results[i], checks[place]); err != nil {
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
	return result.Decision.Decision(), nil
}

// fits says that an answer speaks of the buckets of check. Their keys may be
// spelt otherwise: the service writes them as their zones do.
func fits(answer api.Decision, check service.Check) bool {
	if len(answer.Buckets) != len(check.Buckets) {
		return false
	}
	for i, b := range check.Buckets {
		if answer.Buckets[i].ZoneID != b.ZoneID {
			return false
		}
	}
	return true
}
