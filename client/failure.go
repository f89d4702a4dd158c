package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"velocityd/api"
	"velocityd/client/inprocess"
	"velocityd/service"
)

// failure is the error of one try.
type failure struct {
	action string
	base   string
	cause  error
	kind   error // an error of package service; nil if the cause wraps one
	// again is true if asking again may help. after is the answer's Retry-After, or 0.
	again bool
	after time.Duration
}

// Error implements error.
func (f *failure) Error() string {
	text := fmt.Sprintf("%s at %s: %v", f.action, f.base, f.cause)
	if f.after > 0 {
		text += fmt.Sprintf(" (Retry-After: %d)", service.WholeSeconds(f.after))
	}
	return text
}

// Unwrap returns the kind of the failure, and its cause.
func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

func (c *Client) failure(r request, kind, cause error) *failure {
	return &failure{action: r.action, base: c.shown, cause: cause, kind: kind}
}

// ownError returns the error of an interface in this process, which is returned as it is, or nil.
func ownError(err error) error {
	if fault := new(inprocess.OwnError); errors.As(err, &fault) {
		return fault.Err
	}
	return nil
}

// unreached is the error of a request that was not sent: nothing was counted.
func (c *Client) unreached(r request, err error) error {
	if own := ownError(err); own != nil {
		return own
	}
	err = reason(err)
	cause := fmt.Errorf("not reached: %w", err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		cause = fmt.Errorf("nothing listens at %s: is velocityd running? (%w)", c.shown, err)
	}
	f := c.failure(r, service.ErrBusy, cause)
	var dial *net.OpError
	f.again = errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, context.DeadlineExceeded)
	return f
}

// cutOff is the error of an answer that did not arrive, or only in part.
func (c *Client) cutOff(r request, err error) error {
	if own := ownError(err); own != nil {
		return own
	}
	f := c.failure(r, r.whenLost(), fmt.Errorf("no answer: %w", reason(err)))
	f.again = true
	return f
}

// unreadable is the error of an answer that reports success but cannot be used.
func (c *Client) unreadable(r request, text string) error {
	kind := r.whenLost()
	if errors.Is(kind, service.ErrBusy) {
		kind = nil // asking again would not help
	}
	return c.failure(r, kind, errors.New(text))
}

// refused returns the error of an answer whose status is not one of success.
func (c *Client) refused(r request, response *http.Response, text []byte) error {
	status := response.StatusCode
	f := c.failure(
		r, nil, fmt.Errorf("unexpected answer %d %s: is there a velocityd at this address?", status, http.StatusText(status)))
	problem := new(api.Problem)
	if mediaOf(response) == api.MediaProblem && json.Unmarshal(text, problem) == nil && problem.Title != "" {
		f.cause = problem
	}
	if problem.Unwrap() == nil && status >= http.StatusInternalServerError {
		// A proxy has answered. The service may have carried out the request.
		f.kind = r.whenLost()
	}
	if mayPass(status) {
		f.again, f.after = true, retryAfter(response.Header)
	}
	return f
}

// refusedAmong returns the error of one check that was refused among others. It does not say when to ask again.
func (c *Client) refusedAmong(err error) error {
	f := c.failure(checkRequest(), nil, err)
	var problem *api.Problem
	f.again = errors.As(err, &problem) && mayPass(problem.Status)
	return f
}

// mayPass says that a request that was answered with this status may be answered otherwise if it is asked again.
func mayPass(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// whenLost returns the kind of error of a request whose answer is lost. A request that changes nothing can
// be asked again.
func (r request) whenLost() error {
	if r.method == http.MethodGet {
		return service.ErrBusy
	}
	return service.ErrUndecided
}

// retryAfter reads Retry-After, as seconds or as a date. It returns 0 if there is none.
func retryAfter(header http.Header) time.Duration {
	given := header.Get("Retry-After")
	if n, err := strconv.ParseInt(given, 10, 64); err == nil {
		return max(0, service.Seconds(n))
	}
	if at, err := http.ParseTime(given); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// reason returns err without the URL of the request, which may hold a bucket key.
func reason(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
