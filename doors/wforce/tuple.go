package wforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Bounds on the bodies of requests, in bytes. One of Dovecot's has 200.
const (
	maxBody   = 64 << 10
	smallBody = 4 << 10 // a longer one needs one of mostLarge places
	mostLarge = 16
)

// tuple is the members of a request that have an effect. As in weakforced, a member of another type counts as missing,
// and all others are ignored.
type tuple struct {
	Login        text   `json:"login"`
	Remote       text   `json:"remote"`
	PwHash       text   `json:"pwhash"`
	SessionID    text   `json:"session_id"`
	Success      flag   `json:"success"`
	PolicyReject flag   `json:"policy_reject"`
	FailType     text   `json:"fail_type"` // of Dovecot 2.4
	IP           text   `json:"ip"`
	Netmask      text   `json:"netmask"`
	JA3          text   `json:"ja3"`
	ExpireSecs   number `json:"expire_secs"`
	Reason       text   `json:"reason"`
}

// readTuple reads the body of a request. The content type is not looked at.
func (c *call) readTuple(w http.ResponseWriter, r *http.Request) (tuple, error) {
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		if err := c.large.Take(c.shareKey, 1); err != nil {
			return tuple{}, fmt.Errorf("%w: %w", service.ErrBusy, err)
		}
		defer c.large.GiveBack(c.shareKey, 1)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return tuple{}, fmt.Errorf("%w: the body must have at most %d bytes", api.ErrTooLarge, maxBody)
	case err != nil:
		return tuple{}, api.ErrTooSlow
	}
	return parseTuple(body)
}

// parseTuple reads a JSON object. The error wraps service.ErrInvalid, and quotes nothing.
func parseTuple(body []byte) (t tuple, err error) {
	if json.Unmarshal(body, &t) != nil {
		return tuple{}, fmt.Errorf("%w: the body must be a JSON object", service.ErrInvalid)
	}
	return t, nil
}

// text is a string, or "" for anything else.
type text string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *text) UnmarshalJSON(written []byte) error { return lenient((*string)(t), written) }

// flag is a boolean, or false for anything else.
type flag bool

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (f *flag) UnmarshalJSON(written []byte) error { return lenient((*bool)(f), written) }

// number is a whole number, or 0 for anything else.
type number int64

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *number) UnmarshalJSON(written []byte) error { return lenient((*int64)(n), written) }

func lenient[T any](value *T, written []byte) error {
	var read T
	if json.Unmarshal(written, &read) == nil {
		*value = read
	}
	return nil
}
