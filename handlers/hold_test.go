package handlers

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"velocityd/api"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/handlerstest"
	"velocityd/tools/servicetest"
)

// deafCaller speaks HTTP/2 and takes no bytes of answers' bodies.
type deafCaller struct {
	*http2.Framer
	next   uint32           // stream
	frames chan http2.Frame // that came
}

// newDeafCaller returns a caller on a connection of HTTP/2 that is new.
func newDeafCaller(t *testing.T, conn net.Conn) *deafCaller {
	t.Helper()
	c := &deafCaller{Framer: http2.NewFramer(conn, conn), next: 1, frames: make(chan http2.Frame, 1<<10)}
	handlerstest.MustWrite(t, conn, http2.ClientPreface)
	go func() {
		defer close(c.frames)
		for {
			frame, err := c.ReadFrame()
			if err != nil {
				return
			}
			c.frames <- frame
		}
	}()
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask begins a request. One of POST has a body, which does not come.
func (c *deafCaller) ask(t *testing.T, method, path string) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", method},
		{":scheme", "https"},
		{":authority", "localhost"},
		{":path", path},
		{"content-type", "application/json"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a bytes.Buffer takes all
	}
	head := http2.HeadersFrameParam{
		StreamID: c.next, BlockFragment: block.Bytes(), EndStream: method != http.MethodPost,
		EndHeaders: true,
	}
	if err := c.WriteHeaders(head); err != nil {
		t.Fatal(err)
	}
	c.next += 2
}

func TestOneConnectionOfHTTP2HoldsFewRequests(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	const asked = 10 * http2Streams
	for name, request := range map[string]struct{ method, path string }{
		"an open route":     {http.MethodGet, pathDescription},
		"without a token":   {http.MethodGet, "/v1/zones"},
		"no route":          {http.MethodGet, "/v1/nothing"},
		"a body to be sent": {http.MethodPost, "/v1/checks"},
	} {
		s := listenWith(t, nil, wire.Options{TLS: authority.ServerTLS(t)}, func(o *Options) {
			if request.method == http.MethodGet {
				o.Auth.Callers = access.NewCache(&servicetest.Credentials{}, access.Options{})
			}
		})
		conn, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: authority.Pool, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		caller := newDeafCaller(t, conn)
		for range asked {
			caller.ask(t, request.method, request.path)
		}
		refused := map[uint32]bool{}
		answers := 0
		for len(refused) < asked-http2Streams {
			switch frame := (<-caller.frames).(type) {
			case nil:
				t.Fatalf("%s: the connection ended after %d refusals and %d answers", name, len(refused), answers)
			case *http2.RSTStreamFrame:
				refused[frame.StreamID] = true
			case *http2.HeadersFrame:
				if answers++; answers > http2Streams {
					t.Fatalf("%s: %d answers are held", name, answers)
				}
			}
		}
	}
}

func TestUntakenAnswerIsGivenUpOverHTTP2(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	settings := authority.ServerTLS(t)
	now := time.Now() // the bubble's clock is before the certificate's time
	trusting := &tls.Config{
		RootCAs: authority.Pool, ServerName: "velocityd", NextProtos: []string{"h2"},
		Time: func() time.Time { return now },
	}
	for _, path := range []string{pathDescription, pathLive} {
		synctest.Test(t, func(t *testing.T) {
			pipes := servePipes(New(Options{}), wire.Options{TLS: settings})
			defer pipes.end()
			near := pipes.dial()
			caller := newDeafCaller(t, tls.Client(near.Conn, trusting))
			caller.ask(t, http.MethodGet, path)
			began := time.Now()
			for {
				if _, given := (<-caller.frames).(*http2.RSTStreamFrame); given {
					break
				}
			}
			if took := time.Since(began); took > answerTimeout {
				t.Errorf("%s: given up after %s", path, took)
			}
			near.Close()
		})
	}
}

func TestAnswersCountUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	body := `{"checks":[` + strings.Repeat(bucketJSON(1, "a")+",", service.MaxChecks-1) + bucketJSON(1, "a") + `]}`
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Options{Limiter: service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}),
			service.LimiterOptions{Timeout: time.Minute}), MaxBodyBytes: 4 * maxBody})
		pipes := servePipes(s.serve(s.routeCalls), wire.Options{})
		defer pipes.end()
		near := pipes.dial()
		handlerstest.MustWrite(t, near, handlerstest.Asks("/v1/checks", body))
		synctest.Wait() // now the answer is written to a caller that has gone
		answer := service.MaxChecks * len(`{"decision":{"blocked":false,"would_block":false,"retry_after":0,"buckets":[]}},`)
		if held := s.bodies.Taken(); held < answer {
			t.Errorf("%d bytes are held, and the answer has more than %d", held, answer)
		}
		time.Sleep(answerTimeout) // of the bubble's time
		synctest.Wait()
		if held := s.bodies.Taken(); held != 0 {
			t.Errorf("%d bytes are held at the end", held)
		}
		near.Close()
	})
}

func TestAnswerBeyondMemoryIsRefusedBeforeWork(t *testing.T) {
	t.Parallel()
	checks := `{"checks":[` + strings.Repeat(bucketJSON(1, "a")+",", 99) + bucketJSON(1, "a") + `]}`
	outcomes := `{"reports":[` + strings.Repeat(`{"txn_id":1,"outcome":"success"},`, 99) +
		`{"txn_id":1,"outcome":"success"}]}`
	s := start(t, func(o *Options) { o.MaxBodyBytes = int64(len(checks)) + firstBuffer })
	for id := range int64(100) {
		s.SetZone(t, service.Zone{ID: id + 1, Rate: 1, Window: time.Hour})
	}
	for path, got := range map[string]reply{
		"/v1/checks": s.post(t, "/v1/checks", checks), "/v1/outcomes": s.post(t, "/v1/outcomes", outcomes),
		"/v1/zones": s.get(t, "/v1/zones"),
	} {
		if got.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	s.post(t, "/v1/check", bucketJSON(1, "a")).answered(t, http.StatusOK, `"blocked":false`)
}

// keptWrites keeps what is written, without a copy.
type keptWrites struct {
	*httptest.ResponseRecorder
	written []byte
}

func (w *keptWrites) Write(p []byte) (int, error) {
	w.written = p
	return len(p), nil
}

func TestConstantAnswersAreNotCopied(t *testing.T) {
	t.Parallel()
	handler := New(Options{})
	for path, constant := range map[string][]byte{pathDescription: api.Description, pathWelcome: welcomeText} {
		w := &keptWrites{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if len(w.written) != len(constant) || &w.written[0] != &constant[0] {
			t.Errorf("%s: the answer is a copy", path)
		}
	}
}
