package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

func writeFile[T string | []byte](t *testing.T, path string, text T) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnloadableCertificatePairEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	files := handlerstest.NewMount(
		t, handlerstest.Pair{Cert: authority.Issue(t, "a").Cert, Key: authority.Issue(t, "b").Key})
	r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", "127.0.0.1:0",
		"--tls-cert", files.Cert(), "--tls-key", files.Key())
	if r.code != exitUsage || !strings.Contains(r.stderr, "private key does not match") {
		t.Errorf("got %+v", r)
	}
}

func TestAStarAllowsAllNamesOfHosts(t *testing.T) {
	t.Parallel()
	if f := (listenFlags{AllowedHosts: []string{"a.example", "*"}}); f.hosts() != nil {
		t.Errorf("* allows %q", f.hosts())
	}
	if f := (listenFlags{}); f.hosts() == nil {
		t.Error("no names allow all")
	}
}

func TestTheURLOfDevFollowsTheListener(t *testing.T) {
	t.Parallel()
	any4, loopback := &net.TCPAddr{IP: net.IPv4zero, Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2}
	plain, secure := serviceFlags{}, serviceFlags{listenFlags: listenFlags{TLSCert: "a"}}
	for want, got := range map[string]string{
		"http://127.0.0.1:1": plain.baseURL(any4), "http://127.0.0.1:2": plain.baseURL(loopback),
		"https://127.0.0.1:1": secure.baseURL(any4),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// secureInstance is an instance that speaks TLS, and a client that reaches it.
type secureInstance struct {
	*instanceUnderTest
	cmd    *exec.Cmd
	files  handlerstest.Mount
	ca     string // file of the authority that signs the certificates
	admin  string // URL
	client *http.Client
	issue  func(name string) handlerstest.Pair
}

// startSecure starts a process with TLS and two listeners.
func startSecure(t *testing.T, d *enginetest.Database) *secureInstance {
	t.Helper()
	authority := handlerstest.NewAuthority(t)
	ca := fileOf(t, "ca.pem", string(authority.PEM))
	s := &secureInstance{ca: ca, issue: func(name string) handlerstest.Pair { return authority.Issue(t, name) }}
	s.files = handlerstest.NewMount(t, s.issue("first"))
	s.cmd = exec.CommandContext(context.Background(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--admin-listen",
		"127.0.0.1:0",
		"--log-format", "json", "--access-log", "--tls-cert", s.files.Cert(), "--tls-key", s.files.Key(), "--tls-client-ca",
		ca)
	s.instanceUnderTest = spawn(t, s.cmd, []string{"VELOCITY_DSN=" + d.DSN})
	s.url = strings.Replace(s.url, "http:", "https:", 1)
	_, rest, _ := strings.Cut(s.stderr.String(), `"listening for administration","address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	s.admin = "https://" + address
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	enginetest.Eventually(t, "ready", func() bool {
		status, _ := s.ask(s.url + "/readyz")
		return status == http.StatusOK
	})
	return s
}

// ask asks, and returns the status and the name in the server's certificate.
func (s *secureInstance) ask(url string) (status int, name string) {
	answer, err := s.client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.TLS.PeerCertificates[0].Subject.CommonName
}

// shows reports whether a new connection gets the certificate of this name.
func (s *secureInstance) shows(name string) bool {
	s.client.CloseIdleConnections()
	_, got := s.ask(s.url + "/livez")
	return got == name
}

// commandsTrustItsCA asks by command with the CA's file, without it, and with files that hold no
// certificate.
func (s *secureInstance) commandsTrustItsCA(t *testing.T) {
	t.Helper()
	empty := fileOf(t, "empty.pem", "")
	for ca, want := range map[string]struct {
		code int
		says string
	}{
		s.ca: {exitSuccess, ""}, "": {exitError, "--ca"}, empty: {exitUsage, "no certificate"},
		empty + ".none": {exitUsage, "no such file"},
	} {
		r := command(environment{"VELOCITY_URL": s.url, "VELOCITY_CA": ca}, nil, "check", "1", "bob")
		if r.code != want.code || !strings.Contains(r.stderr, want.says) {
			t.Errorf("--ca %q: %+v, want %+v", ca, r, want)
		}
	}
}

func TestServeSpeaksTLSAndReloadsCertificatesWhileRunning(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	s := startSecure(t, d)
	for path, want := range map[string][2]int{ // at the first listener and at the second
		"/v1/zones/1": {404, 200}, "/debug/pprof/": {404, 200}, "/livez": {200, 200}, "/readyz": {200, 200},
		"/metrics": {404, 200}, "/console": {404, 200}, "/console/": {404, 200}, "/console/login": {404, 200},
	} {
		atFirst, _ := s.ask(s.url + path)
		atSecond, _ := s.ask(s.admin + path)
		if atFirst != want[0] || atSecond != want[1] {
			t.Errorf("%s: %d and %d, want %v", path, atFirst, atSecond, want)
		}
	}
	for _, url := range []string{s.url, s.admin} {
		answer, err := s.client.Post(url+"/v1/check", "application/json", strings.NewReader(alice))
		if err != nil || answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
			t.Fatalf("%+v, %v", answer, err)
		}
		answer.Body.Close()
	}
	s.commandsTrustItsCA(t)
	s.files.Swap(t, s.issue("second"))
	enginetest.Eventually(t, "the second certificate", func() bool { return s.shows("second") })
	s.files.Swap(t, handlerstest.Pair{Cert: s.issue("third").Cert, Key: s.issue("other").Key})
	s.hangUp(t)
	enginetest.Eventually(t, "an error in the log",
		func() bool { return strings.Contains(s.stderr.String(), "certificate not loaded") })
	if !s.shows("second") {
		t.Error("a broken pair took the one before out of force")
	}
	s.files.Swap(t, s.issue("fourth"))
	s.hangUp(t)
	enginetest.Eventually(t, "the fourth certificate", func() bool { return s.shows("fourth") })
	s.stopsWhileAProfileIsTaken(t)
}

func (s *secureInstance) hangUp(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// stopsWhileAProfileIsTaken holds that a profile of an hour does not hold up a stop.
func (s *secureInstance) stopsWhileAProfileIsTaken(t *testing.T) {
	t.Helper()
	answer, err := s.client.Get(s.admin + "/debug/pprof/trace?seconds=3600") // its first bytes come at once
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if code := s.stop(t); code != exitSuccess {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Errorf("the profile is cut off: %v", err)
	}
}

func TestOpenFilesBoundTheConnections(t *testing.T) {
	t.Parallel()
	const files, conns = 300, 8
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	cmd := exec.CommandContext(context.Background(), "sh", "-c", `ulimit -n 300; exec "$0" "$@"`, os.Args[0],
		"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--max-conns", "8")
	i := spawn(t, cmd, []string{"VELOCITY_DSN=" + d.DSN})
	eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
	if want := `"max_connections":100,"open_files":300`; !strings.Contains(i.stderr.String(), want) {
		t.Fatalf("the log lacks %s (%d files, %d connections to the database):\n%s", want, files, conns, i.stderr)
	}
	old := &http.Transport{}
	defer old.CloseIdleConnections()
	if r, err := askBy(t.Context(), old, i.url+"/v1/check", alice); err != nil || r.status != http.StatusOK {
		t.Fatalf("%+v, %v", r, err)
	}
	var idle []*http.Transport
	defer func() {
		for _, transport := range idle {
			transport.CloseIdleConnections()
		}
	}()
	refused := 0
	for range 130 {
		transport := &http.Transport{}
		idle = append(idle, transport)
		r, err := askBy(t.Context(), transport, i.url+"/v1/check", `{"zone_id":9,"bucket_key":"a"}`)
		if err != nil {
			t.Fatal(err)
		}
		if r.status == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused < 30 {
		t.Errorf("%d of 130 callers were refused", refused)
	}
	if r, err := askBy(t.Context(), old, i.url+"/v1/check", alice); err != nil || r.status != http.StatusOK {
		t.Errorf("the old caller: %+v, %v", r, err)
	}
}
