package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/tools/handlerstest"
)

const (
	partsPart = 1 << 20
	mostParts = 12
)

// inParts answers with the length of the body, and then mostParts parts, with a pause before each. ended gets what
// ended it.
func inParts(pause time.Duration, ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w, r = WithPartDeadlines(w, r)
		defer SetPartDeadline(w)
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			_, err = fmt.Fprintln(w, n)
		}
		for range mostParts {
			time.Sleep(pause) // of the bubble's time
			if err == nil {
				_, err = w.Write(make([]byte, partsPart))
			}
			if err == nil {
				err = http.NewResponseController(w).Flush()
			}
		}
		ended <- err
	}
}

// protocols returns a function for each protocol, which makes a client of a handler over a pipe.
func protocols(t *testing.T) map[string]func(handler http.HandlerFunc) (client http.RoundTripper, end func()) {
	t.Helper()
	authority := handlerstest.NewAuthority(t)
	settings, now := authority.ServerTLS(t), time.Now() // the bubble's clock is before the certificate's time
	trusting := &tls.Config{
		RootCAs: authority.Pool, ServerName: "velocityd", NextProtos: []string{"h2"},
		Time: func() time.Time { return now },
	}
	return map[string]func(http.HandlerFunc) (http.RoundTripper, func()){
		"HTTP/1": func(handler http.HandlerFunc) (http.RoundTripper, func()) {
			near, accepted := net.Pipe()
			end := serveConn(handler, Options{}, accepted)
			return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }},
				end
		},
		"HTTP/2": func(handler http.HandlerFunc) (http.RoundTripper, func()) {
			near, accepted := net.Pipe()
			end := serveConn(handler, Options{TLS: settings}, accepted)
			return &http.Transport{
				ForceAttemptHTTP2: true,
				DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					conn := tls.Client(near, trusting)
					return conn, conn.HandshakeContext(ctx)
				},
			}, end
		},
	}
}

func addressOf(protocol string) string {
	if protocol == "HTTP/2" {
		return "https://a/"
	}
	return "http://a/"
}

// slowly is a body of so many bytes, with a pause before each.
func slowly(n int, pause time.Duration) io.Reader {
	from, to := io.Pipe()
	go func() {
		for range n {
			time.Sleep(pause) // of the bubble's time
			_, _ = to.Write([]byte("x"))
		}
		_ = to.Close()
	}()
	return from
}

func TestWhatMovesMayLast(t *testing.T) {
	t.Parallel()
	for name, connect := range protocols(t) {
		for pauses, c := range map[string]struct{ upload, between, taken time.Duration }{
			"a slow upload":            {upload: streamTimeout - time.Second},
			"a pause of the answer":    {between: 10 * streamTimeout},
			"an answer taken by parts": {taken: streamTimeout / 3},
		} {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				client, end := connect(inParts(c.between, ended))
				defer end()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, addressOf(name), slowly(20, c.upload))
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.RoundTrip(r)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, pauses, err)
				}
				for err == nil {
					time.Sleep(c.taken) // of the bubble's time
					_, err = io.CopyN(io.Discard, response.Body, partsPart)
				}
				if told := <-ended; told != nil || err != io.EOF { //nolint:errorlint // the very end
					t.Errorf("%s, %s: %v; the client %v", name, pauses, told, err)
				}
				_ = response.Body.Close()
			})
		}
	}
}

func TestWhatStandsStillIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, connect := range protocols(t) {
		for still, body := range map[string]func() io.Reader{
			"a body that does not come":      func() io.Reader { return slowly(2, 10*streamTimeout) },
			"an answer that was never taken": func() io.Reader { return strings.NewReader("x") },
		} {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				client, end := connect(inParts(0, ended))
				defer end()
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, addressOf(name), body())
				if err != nil {
					t.Fatal(err)
				}
				began, asked := time.Now(), make(chan struct{})
				go func() {
					defer close(asked)
					if response, err := client.RoundTrip(r); err == nil {
						<-ctx.Done() // nothing of the body is read
						_ = response.Body.Close()
					}
				}()
				if err, took := <-ended, time.Since(began); err == nil || took < streamTimeout || took > streamTimeout+time.Second {
					t.Errorf("%s, %s: ended after %s by %v", name, still, took, err)
				}
				cancel()
				<-asked
				time.Sleep(30 * streamTimeout) // the body's writer ends
			})
		}
	}
}

// TestAnAnswerBeforeItsBodyIsBounded holds that net/http's own reading of a rest of a body does not last.
func TestAnAnswerBeforeItsBodyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, accepted := net.Pipe()
		defer serveConn(func(w http.ResponseWriter, r *http.Request) {
			w, _ = WithPartDeadlines(w, r)
			defer SetPartDeadline(w)
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(make([]byte, partsPart))
		}, Options{}, accepted)()
		began := time.Now()
		handlerstest.MustWrite(t, near, strings.TrimSuffix(handlerstest.Asks("/", "hello"), "llo"))
		if _, err := io.Copy(io.Discard, near); err != nil || time.Since(began) > streamTimeout {
			t.Errorf("it ended after %s: %v", time.Since(began), err)
		}
	})
}

func TestUpgradedConnectionMayBeSilentNotDeaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, accepted := net.Pipe()
		ended := make(chan error, 1)
		defer serveConn(func(w http.ResponseWriter, r *http.Request) {
			w, _ = WithPartDeadlines(w, r)
			defer SetPartDeadline(w)
			conn, _, err := http.NewResponseController(w).Hijack()
			for err == nil {
				line := make([]byte, 1)
				if _, err = conn.Read(line); err == nil {
					_, err = conn.Write(line)
				}
			}
			_ = conn.Close()
			ended <- err
		}, Options{}, accepted)()
		handlerstest.MustWrite(t, near, strings.TrimSuffix(handlerstest.Asks("/", "x"), "x"))
		answers := bufio.NewReader(near)
		for _, want := range []byte("xab") {
			time.Sleep(10 * streamTimeout)
			handlerstest.MustWrite(t, near, string(want))
			if got, err := answers.ReadByte(); got != want || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		began := time.Now()
		handlerstest.MustWrite(t, near, "c") // and it is not read
		if err := <-ended; err == nil || time.Since(began) != streamTimeout {
			t.Errorf("given up after %s: %v", time.Since(began), err)
		}
	})
}
