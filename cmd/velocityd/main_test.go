package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-sql-driver/mysql"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// asProgram makes the test binary be velocityd itself, for tests that need a
// process of its own to kill.
const asProgram = "VELOCITYD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	enginetest.Main(m)
}

// patience is how long tests wait for events, on slow machines too.
const patience = 5 * time.Minute

// lifetime bounds a command, far beyond any test's end. With a deadline of its
// caller an engine's start has that long and not a minute.
const lifetime = time.Hour

// outputLimit is how much of a stream is kept. An instance under load writes a
// line for each request.
const outputLimit = 8 << 20

// output is a stream that can be read while it is written. What comes after
// outputLimit is lost.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // has room for one
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	if o.text.Len() < outputLimit {
		o.text.Write(p)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// environment is the environment of a command, in place of the process's own.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// lines are the variables as os.Environ has them.
func (e environment) lines() (list []string) {
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	return list
}

// orNoRetention looks up a variable of an instance that takes no part in retention unless e says so.
func (e environment) orNoRetention(name string) (string, bool) {
	value, ok := e[name]
	if !ok && name == "VELOCITY_RETENTION" {
		return "off", true
	}
	return value, ok
}

// tester is the principal of the commands of tests.
const tester = "tester@host"

// parserOf returns the program's parser of command lines, which fills a grammar and ends nothing.
func parserOf(t *testing.T, grammar any, env environment) *kong.Kong {
	t.Helper()
	parser, err := newParser(grammar, &shell.Process{LookupEnv: env.lookup}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// configOf returns the parts of a DSN of this test's own.
func configOf(t *testing.T, dsn string) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	return cfg
}

// databaseOf returns a database of this test's own, with zones, and the environment of commands that ask it.
func databaseOf(t *testing.T, zones ...service.Zone) (*enginetest.Database, environment) {
	t.Helper()
	d := enginetest.First(t).Database(t, zones...)
	return d, environment{"VELOCITY_DSN": d.DSN}
}

// fileOf writes a file into a folder of the test, and returns its path.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeFile(t, path, text)
	return path
}

// result is the end of a command.
type result struct {
	code           int
	stdout, stderr string
}

// said is the text that a command wrote to stderr besides the name of its database.
func (r result) said() string {
	if first, rest, found := strings.Cut(r.stderr, "\n"); found &&
		strings.HasPrefix(first, "velocityd: the database is ") {
		return rest
	}
	return r.stderr
}

// command carries out one command to its end.
func command(env environment, stdin io.Reader, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	defer cancel()
	return commandIn(ctx, env, stdin, args...)
}

// commandIn carries out one command, which ctx may interrupt.
func commandIn(ctx context.Context, env environment, stdin io.Reader, args ...string) result {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &shell.Process{
		LookupEnv: env.lookup, Environ: env.lines(), Stdin: stdin, Stdout: &stdout, Stderr: &stderr, Principal: tester,
	})
	return result{code, stdout.String(), stderr.String()}
}

// commandUntil carries out a command that follows, until it has written so many lines.
func commandUntil(t *testing.T, env environment, lines int, args ...string) result {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	stdout, stderr, ended := newOutput(), newOutput(), make(chan int, 1)
	go func() {
		ended <- run(ctx, args, &shell.Process{
			LookupEnv: env.lookup, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Principal: tester,
		})
	}()
	for {
		select {
		case code := <-ended:
			return result{code, stdout.String(), stderr.String()}
		case <-stdout.wrote:
			if strings.Count(stdout.String(), "\n") >= lines {
				stop()
			}
		}
	}
}

// must carries out a command that has to succeed, and returns its output.
func must(t *testing.T, env environment, args ...string) string {
	t.Helper()
	r := command(env, nil, args...)
	if r.code != exitSuccess {
		t.Fatalf("%q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// instanceUnderTest is a command that serves until it is stopped.
type instanceUnderTest struct {
	url            string
	stdout, stderr *output
	cancel         context.CancelFunc
	ended          chan struct{}
	code           int // valid once ended is closed
}

// launch starts a serving command and returns at once. It takes no part in retention, unless env says so: the runner
// would make partitions, and no other test could have the database after this one.
func launch(t *testing.T, env environment, args ...string) *instanceUnderTest {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	i := &instanceUnderTest{stdout: newOutput(), stderr: newOutput(), cancel: cancel, ended: make(chan struct{})}
	if !slices.Contains(args, "--listen") {
		args = append(slices.Clone(args), "--listen", "127.0.0.1:0")
	}
	go func() {
		defer close(i.ended)
		i.code = run(ctx, append(slices.Clone(args), "--log-format", "json", "--log-level", "debug"),
			&shell.Process{LookupEnv: env.orNoRetention, Environ: env.lines(), Stdout: i.stdout, Stderr: i.stderr})
	}()
	enginetest.AtEnd(t, func() {
		i.cancel()
		<-i.ended
		if t.Failed() {
			t.Logf("%q printed\n%s%s", args, i.stdout, i.stderr)
		}
	})
	return i
}

// start starts a serving command and waits until it is ready.
func start(t *testing.T, env environment, args ...string) *instanceUnderTest {
	t.Helper()
	i := launch(t, env, args...)
	i.awaitAddress(t)
	eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
	return i
}

// awaitAddress waits until the command listens, at the address that its log
// names.
func (i *instanceUnderTest) awaitAddress(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for {
		if address := addressIn(i.stderr.String()); address != "" {
			i.url = "http://" + address
			return
		}
		select {
		case <-i.stderr.wrote:
		case <-i.ended:
			t.Fatalf("ended with %d before it listened\n%s%s", i.code, i.stdout, i.stderr)
		case <-deadline:
			t.Fatalf("did not listen in %s\n%s%s", patience, i.stdout, i.stderr)
		}
	}
}

func addressIn(log string) string {
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			return entry.Address
		}
	}
	return ""
}

// stop ends the command as a signal does and returns its exit code.
func (i *instanceUnderTest) stop(t *testing.T) int {
	t.Helper()
	i.cancel()
	return i.await(t)
}

// await waits for the command's own end.
func (i *instanceUnderTest) await(t *testing.T) int {
	t.Helper()
	select {
	case <-i.ended:
	case <-time.After(patience):
		t.Fatalf("did not end in %s\n%s%s", patience, i.stdout, i.stderr)
	}
	return i.code
}

// reply is one HTTP answer.
type reply struct {
	status int
	header http.Header
	body   string
	closed bool // the service wants no more requests on this connection
}

// request makes one request on a separate connection: POST if there is a body.
func request(url, body string) (reply, error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	return askBy(context.Background(), transport, url, body)
}

// askBegun is request, and calls begun when a handler has begun to read the body.
func askBegun(url, body string, begun func()) (reply, error) {
	// The body is sent when "Continue" has come, which is then (RFC 9110, 10.1.1).
	transport := &http.Transport{ExpectContinueTimeout: patience}
	defer transport.CloseIdleConnections()
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: begun})
	return askBy(ctx, transport, url, body)
}

func askBy(ctx context.Context, transport *http.Transport, url, body string) (reply, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if transport.ExpectContinueTimeout > 0 {
		request.Header.Set("Expect", "100-continue")
	}
	client := http.Client{Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text), response.Close}, err
}

// send makes a request by any method and with further headers, each a name and a value. It follows no redirect.
func send(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text), response.Close}
}

// mustAsk fails the test unless the answer has the status.
func mustAsk(t *testing.T, url, body string, status int) reply {
	t.Helper()
	r, err := request(url, body)
	if err != nil || r.status != status {
		t.Fatalf("%s %s: got %d %s (%v), want %d", url, body, r.status, r.body, err, status)
	}
	return r
}

func eventuallyStatus(t *testing.T, url string, status int) {
	t.Helper()
	enginetest.Eventually(t, url, func() bool {
		r, err := request(url, "")
		return err == nil && r.status == status
	})
}
