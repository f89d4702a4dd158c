package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"
)

// The HTTP client does only what the benchmark needs: HTTP/1.1, POST, keep-alive, answers
// with a Content-Length. It shares the cores with the programs that it measures, so it
// must cost little: no header maps, no garbage.

const maxBody = 1 << 16 // an answer is a few hundred bytes

// language is the part of the protocol in which contenders behind HTTP differ.
type language interface {
	// appendBody appends the question.
	appendBody(body []byte, buckets []bucket) []byte
	// read reads the answer.
	read(status int, body []byte) (answer, error)
}

func dialWeb(address, path string, in language) dial {
	head := "POST " + path + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nContent-Length: "
	return func(ctx context.Context, until time.Time) (caller, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		_ = conn.SetDeadline(until) // fails only for a connection that was closed here
		return &webCaller{conn: conn, in: bufio.NewReaderSize(conn, 2048), head: head, language: in}, nil
	}
}

type webCaller struct {
	conn     net.Conn
	in       *bufio.Reader
	head     string
	language language
	body     []byte
	request  []byte
	answer   []byte
}

func (c *webCaller) close() { c.conn.Close() }

func (c *webCaller) ask(_ context.Context, buckets []bucket) (answer, error) {
	c.body = c.language.appendBody(c.body[:0], buckets)
	c.request = append(c.request[:0], c.head...)
	c.request = strconv.AppendInt(c.request, int64(len(c.body)), 10)
	c.request = append(c.request, "\r\n\r\n"...)
	c.request = append(c.request, c.body...)
	if _, err := c.conn.Write(c.request); err != nil {
		return answer{}, fmt.Errorf("send: %w", err)
	}
	status, err := c.read()
	if err != nil {
		return answer{}, fmt.Errorf("receive: %w", err)
	}
	return c.language.read(status, c.answer)
}

// read reads one answer: its status, and its body into c.answer.
func (c *webCaller) read() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errors.New("not an answer in HTTP/1.1")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	length := -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("content length: %w", err)
			}
		}
	}
	if length < 0 || length > maxBody {
		return 0, fmt.Errorf("answer with status %d has no usable Content-Length", status)
	}
	c.answer = slices.Grow(c.answer[:0], length)[:length]
	_, err = io.ReadFull(c.in, c.answer)
	return status, err
}

// serviceLanguage is the language of velocityd and of redis_rate in rivals/echo.
type serviceLanguage struct{}

func (serviceLanguage) appendBody(body []byte, buckets []bucket) []byte {
	if len(buckets) == 1 {
		return appendBucket(body, buckets[0])
	}
	body = append(body, `{"buckets":[`...)
	for i, b := range buckets {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendBucket(body, b)
	}
	return append(body, "]}"...)
}

// appendBucket appends a bucket's members. It needs no escapes, because the benchmark's
// keys are letters, digits and hyphens.
func appendBucket(body []byte, b bucket) []byte {
	body = append(body, `{"zone_id":`...)
	body = strconv.AppendInt(body, int64(b.zone), 10)
	body = append(body, `,"bucket_key":"`...)
	body = append(body, b.key...)
	return append(body, `"}`...)
}

func (serviceLanguage) read(status int, body []byte) (answer, error) {
	switch {
	case status == 503:
		return answer{busy: 1}, nil
	case status != 200:
		return answer{}, fmt.Errorf("status %d", status)
	case bytes.HasPrefix(body, []byte(`{"blocked":true`)):
		return decided(true), nil
	case bytes.HasPrefix(body, []byte(`{"blocked":false`)):
		return decided(false), nil
	}
	return answer{}, errors.New("an answer that does not begin with blocked")
}

// zoneEntry begins the key of the entry that names a zone, in Envoy's questions.
const zoneEntry = "zone_"

// envoyLanguage is the language of envoyproxy/ratelimit: one descriptor for each bucket,
// and the answer is the status.
type envoyLanguage struct{}

func (envoyLanguage) appendBody(body []byte, buckets []bucket) []byte {
	body = append(body, `{"domain":"bench","descriptors":[`...)
	for i, b := range buckets {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"entries":[{"key":"`+zoneEntry...)
		body = strconv.AppendInt(body, int64(b.zone), 10)
		body = append(body, `","value":"`...)
		body = append(body, b.key...)
		body = append(body, `"}]}`...)
	}
	return append(body, "]}"...)
}

func (envoyLanguage) read(status int, body []byte) (answer, error) {
	switch {
	case status == 429 && bytes.Contains(body, []byte(`"OVER_LIMIT"`)):
		return decided(true), nil
	case status == 200 && bytes.Contains(body, []byte(`"OK"`)):
		return decided(false), nil
	}
	return answer{}, fmt.Errorf("status %d", status)
}
