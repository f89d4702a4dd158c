package wire

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"velocityd/tools/handlerstest"
)

func TestConnectionEndsAfterRequestWithTwoLengths(t *testing.T) {
	t.Parallel()
	const body = "alice"
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	const chunked = "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		requests []string
		closes   bool // behind the last one
	}{
		"chunked":                   {[]string{head + chunked + "\r\n" + chunks}, false},
		"chunked twice":             {[]string{head + chunked + "\r\n" + chunks, head + chunked + "\r\n" + chunks}, false},
		"of one length":             {[]string{head + length + "\r\n" + body}, false},
		"both":                      {[]string{head + length + chunked + "\r\n" + chunks}, true},
		"both, the other way round": {[]string{head + chunked + length + "\r\n" + chunks}, true},
		"both, in small letters":    {[]string{head + strings.ToLower(length+chunked) + "\r\n" + chunks}, true},
		"chunked, behind a length":  {[]string{head + length + "\r\n" + body, head + chunked + "\r\n" + chunks}, false},
		"both, behind a length": {
			[]string{head + length + "\r\n" + body, head + length + chunked + "\r\n" + chunks},
			true,
		},
		"both, behind another": {[]string{head + chunked + "\r\n" + chunks, head + length + chunked + "\r\n" + chunks}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, accepted := net.Pipe()
			defer serveConn(mirror, Options{}, accepted)()
			l := handlerstest.NewLine(caller)
			for i, request := range c.requests {
				for piece := range slices.Chunk([]byte(request), 7) {
					handlerstest.MustWrite(t, caller, string(piece))
				}
				got, err := l.Answer()
				if err != nil || got.Status != http.StatusOK {
					t.Fatalf("%s: %+v, %v", name, got, err)
				}
				if isLast := i == len(c.requests)-1; got.Closes != (isLast && c.closes) {
					t.Errorf("%s: answer %d closes: %t", name, i, got.Closes)
				}
			}
		})
	}
}

func TestWatchFindsTheFieldHoweverSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"POST / HTTP/1.1\r\nContent-Length: 1\r\n":    true,
		"POST / HTTP/1.1\ncONTENT-lENGTH:1\n":         true,
		"a\n\nContent-Length: 1":                      true,
		"a\nContent-\nContent-Length: 1":              true,
		"Content-Length: 1\r\n":                       false, // a request begins with its method
		"POST / HTTP/1.1\r\nX-Content-Length: 1\r\n":  false,
		"POST / HTTP/1.1\r\nContent\x0dLength: 1\r\n": false,
	} {
		for size := 1; size <= len(text); size++ {
			var w lengthWatch
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				w.look([]byte(rest[:n]))
				rest = rest[n:]
			}
			if w.sent.Load() > 0 != want {
				t.Errorf("%q in pieces of %d: found %t", text, size, !want)
			}
		}
	}
}
