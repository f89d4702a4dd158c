package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"velocityd/api"
	"velocityd/service"
)

// request is one question to the service.
type request struct {
	action    string // for errors; it names no key
	method    string
	path      string // escaped, with its query
	body      any    // nil means no body
	principal string // the caller's name, or ""
	accept    string // the media type of the answer; "" means JSON
	match     service.Match
}

// ask asks once and decodes the answer, which is a T.
func ask[T any](ctx context.Context, c *Client, r request) (T, error) {
	var answer T
	text, err := c.send(ctx, r)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, c.unreadable(r, "the answer is not what a velocityd writes: "+describe(err))
	}
	return answer, nil
}

// askAbout asks once. An answer for which isIt is false is about another thing than was asked, and is refused.
func askAbout[T any](ctx context.Context, c *Client, r request, thing string, isIt func(T) bool) (T, error) {
	answer, err := ask[T](ctx, c, r)
	if err == nil && !isIt(answer) {
		err = c.unreadable(r, "the answer is about another "+thing)
	}
	if err != nil {
		return *new(T), err
	}
	return answer, nil
}

// send asks once and returns the body of the answer if its status is one of success.
// Its errors are failures, except for those of an invalid r.
func (c *Client) send(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	question, err := c.question(ctx, r)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(question)
	switch {
	case err != nil && !connected.Load():
		return nil, c.unreached(r, err)
	case err != nil:
		return nil, c.cutOff(r, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, c.maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.cutOff(r, fmt.Errorf("read answer: %w", err))
	case int64(len(text)) > c.maxAnswer:
		return nil, c.unreadable(r, fmt.Sprintf("the answer is longer than %d bytes", c.maxAnswer))
	case response.StatusCode == http.StatusNoContent:
		return nil, nil
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated &&
		response.StatusCode != http.StatusAccepted:
		return nil, c.refused(r, response, text)
	}
	if media := mediaOf(response); media != api.MediaJSON {
		return nil, c.unreadable(r, fmt.Sprintf("unexpected answer of type %q: is there a velocityd at this address?", media))
	}
	return text, nil
}

// question returns r as net/http sends it. The error wraps service.ErrInvalid.
func (c *Client) question(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: encode the question: %w", service.ErrInvalid, r.action, err)
		}
		body = bytes.NewReader(text)
	}
	question, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", service.ErrInvalid, r.action, reason(err))
	}
	if !isHeaderValue(service.StatedReason(ctx)) {
		return nil, fmt.Errorf("%w: %s: the reason must be valid UTF-8 without control characters", service.ErrInvalid,
			r.action)
	}
	if !isHeaderValue(r.principal) {
		return nil, fmt.Errorf("%w: %s: the principal must be valid UTF-8 without control characters", service.ErrInvalid,
			r.action)
	}
	header := question.Header
	header.Set("User-Agent", c.userAgent)
	header.Set("Accept", cmp.Or(r.accept, api.MediaJSON)+", "+api.MediaProblem)
	for name, value := range map[string]string{
		"Content-Type":      whenever(r.body != nil, api.MediaJSON),
		api.HeaderPrincipal: r.principal,
		api.HeaderReason:    service.StatedReason(ctx),
		"If-None-Match":     whenever(r.match.Absent, "*"),
		"If-Match":          whenever(r.match.Present, "*"),
		"Authorization":     whenever(c.token != "", "Bearer "+c.token),
	} {
		if value != "" {
			header.Set(name, value)
		}
	}
	if r.match.Revision > 0 {
		header.Set("If-Match", api.EntityTag(r.match.Revision))
	}
	return question, nil
}

func whenever(wanted bool, value string) string {
	if !wanted {
		return ""
	}
	return value
}

// isHeaderValue reports whether text can be the value of a header field.
func isHeaderValue(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func mediaOf(response *http.Response) string {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return media
}

// describe returns the fault of an answer, without quoting from it.
func describe(err error) string {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &typ):
		return typ.Field + " has another type"
	}
	return "a value has another form"
}
