package client

import (
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
	"velocityd/service"
)

// failure is how one try to ask has failed.
type failure struct {
	action string
	base   string
	cause  error
	kind   error // of package service, if the cause wraps none
	// again says that asking again may help, and after when; 0 if nobody has said.
	again bool
	after time.Duration
}

// Error implements error.
func (f *failure) Error() string { return fmt.Sprintf("%s at %s: %v", f.action, f.base, f.cause) }

// Unwrap returns what the failure means, and its cause.
func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

func (c *Client) failure(r request, kind, cause error) *failure {
	return &failure{action: r.action, base: c.shown, cause: cause, kind: kind}
}

// unreached is the error of a request that was not sent: nothing was counted.
func (c *Client) unreached(r request, err error) error {
	err = reason(err)
	cause := fmt.Errorf("not reached: %w", err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		cause = fmt.Errorf("nobody listens at %s: is velocityd running? (%w)", c.shown, err)
	}
	f := c.failure(r, service.ErrBusy, cause)
	var dial *net.OpError
	f.again = errors.As(err, &dial) && dial.Op == "dial"
	return f
}

// cutOff is the error of an answer that did not come, or not as a whole.
func (c *Client) cutOff(r request, err error) error {
	f := c.failure(r, r.whenLost(), fmt.Errorf("no answer: %w", reason(err)))
	f.again = true
	return f
}

// unreadable is the error of an answer that says that something was done, and
// not what.
func (c *Client) unreadable(r request, text string) error {
	kind := r.whenLost()
	if errors.Is(kind, service.ErrBusy) {
		kind = nil // it would be no better the next time
	}
	return c.failure(r, kind, errors.New(text))
}

// refused returns what an answer says that is none of success.
func (c *Client) refused(r request, response *http.Response, text []byte) error {
	status := response.StatusCode
	f := c.failure(r, nil, fmt.Errorf("unexpected answer %d %s: is this a velocityd?", status, http.StatusText(status)))
	problem := new(api.Problem)
	if mediaOf(response) == api.MediaProblem && json.Unmarshal(text, problem) == nil && problem.Title != "" {
		f.cause = problem
	}
	if problem.Unwrap() == nil && status >= http.StatusInternalServerError {
		// Something between here and there has answered, whatever the service did.
		f.kind = r.whenLost()
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.again, f.after = true, retryAfter(response.Header)
	}
	return f
}

// whenLost is what it means if nobody knows how a request ended. What changes
// nothing can be asked again.
func (r request) whenLost() error {
	if r.method == http.MethodGet {
		return service.ErrBusy
	}
	return service.ErrUndecided
}

// retryAfter reads Retry-After, as seconds or as a date; 0 is none.
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

// reason is what is wrong, without the address of the request, in which there may
// be a bucket key.
func reason(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
