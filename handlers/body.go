package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
)

// maxBody is the longest body of a request, in bytes.
const maxBody = 1 << 20

// read decodes the body of a request into value, or returns an error of package problem.
func (s *server) read(x *exchange, value any) error {
	return s.withBody(x, func(body []byte) error { return s.decoder.Decode(body, value) })
}

// withBody reads the body of a request and calls use with it. use must not keep it.
// The error is that of use, or one of package problem.
func (s *server) withBody(x *exchange, use func(body []byte) error) error {
	if err := requireJSON(x.Request().Header); err != nil {
		return err
	}
	body := s.buffers.take()
	defer s.buffers.giveBack(body)
	if err := s.readBody(x, body); err != nil {
		return err
	}
	return use(body.Bytes())
}

// bodyError turns an error of reading a body into one for the caller; nil stays nil.
func bodyError(err error) error {
	var limit *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", api.ErrTooSlow, err)
	}
	return problem.Invalid("The body ended before it was complete.")
}

func tooLarge() error {
	return problem.New(api.ErrTooLarge, fmt.Sprintf("The body must be at most %d bytes.", maxBody))
}

// requireJSON refuses a body that its header does not announce as plain JSON in
// UTF-8.
func requireJSON(header http.Header) error {
	// Every line of the header counts: programs differ in which of several they read.
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return problem.New(api.ErrMediaType, "The body must be sent without Content-Encoding.")
		}
	}
	given := header.Get("Content-Type")
	if len(header["Content-Type"]) > 1 {
		return problem.New(api.ErrMediaType, "Send one header Content-Type: application/json.")
	}
	if given == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset, named := params["charset"]
	if err != nil || media != "application/json" || named && !strings.EqualFold(charset, "utf-8") ||
		len(params) > 1 || len(params) == 1 && !named {
		return problem.New(api.ErrMediaType, "Send the header Content-Type: application/json.")
	}
	return nil
}

// readBody reads the body of a request into body. A large one is read only once
// the request has a slot, and one that is not tiny only if there is memory for it.
func (s *server) readBody(x *exchange, body *bytes.Buffer) error {
	r := x.Request()
	rest, most := r.Body, r.ContentLength
	switch length := r.ContentLength; {
	case length > maxBody:
		return tooLarge()
	case length < 0: // the length is not announced, so it has to be limited here
		if err := x.takeMemory(smallBody); err != nil {
			return err
		}
		rest, most = http.MaxBytesReader(x.Response().Writer, r.Body, maxBody), maxBody
		_, err := io.CopyN(body, rest, smallBody+1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
	case length <= smallBody:
		if err := x.takeMemory(length); err != nil {
			return err
		}
		_, err := body.ReadFrom(rest)
		return bodyError(err)
	}
	if err := s.takeSlot(x, rest); err != nil {
		return err
	}
	if err := x.takeMemory(most); err != nil { // not before it has a slot: it waits unread
		return err
	}
	connection := http.NewResponseController(x.Response())
	_ = connection.SetReadDeadline(time.Now().Add(largeBodyTimeout)) // on an error the server's deadline holds
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(rest); err != nil {
		return bodyError(err) // the deadline stays: net/http may read the rest
	}
	_ = connection.SetReadDeadline(time.Time{}) // the server sets one for the next request
	if x.slotTimer.Stop() {
		x.slotTimer.Reset(slotHold)
	}
	return nil
}
