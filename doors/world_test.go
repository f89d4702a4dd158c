//go:build doors

package doors_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

// Zones of the gates.
const (
	userZone    = 1
	addressZone = 2
	userRate    = 5
	addressRate = 20
)

// printedToken stands for a token in configurations.
const printedToken = "vel_000000000000000000000000000000000000"

// world is what is behind a gateway: an application, and velocityd with a database.
type world struct {
	db       *enginetest.Database
	app      *application
	velocity *process // nil where no program has the address
	address  string   // of velocityd
	grpc     string   // its address over gRPC
	token    string
}

// newWorld starts velocityd with the gates of this folder and more flags. 127.0.0.1 is the address of the one proxy
// that it believes. Callers need a token with --require-auth alone.
func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	w := &world{app: newApplication(t), address: freeAddress(t), grpc: freeAddress(t), db: enginetest.First(t).Database(t,
		service.Zone{
			ID: userZone, Description: "login per user", Rate: userRate, Window: time.Minute, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		service.Zone{
			ID: addressZone, Description: "login per address", Rate: addressRate, Window: time.Minute,
			Counts: service.CountsFailures,
			Keys:   service.KeyRule{Kind: service.KeyIP},
		})}
	w.token = w.run(t, "token", "create", "gateway", "--scope", "check,report")
	w.velocity = w.serve(t, flags...)
	enginetest.Eventually(t, "velocityd is ready", func() bool {
		r, err := send(t, request(t, http.MethodGet, "http://"+w.address+"/readyz", ""), "127.0.0.2") // not the proxy
		return err == nil && r.status == http.StatusOK
	})
	w.app.report = w.reportAttempt
	return w
}

// run runs a command of velocityd on the world's database, and returns what it prints.
func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), velocityd(t), args...)
	command.Env = append(os.Environ(), "VELOCITY_DSN="+w.db.DSN)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("velocityd %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// serve starts a velocityd at the world's address.
func (w *world) serve(t *testing.T, flags ...string) *process {
	t.Helper()
	args := append([]string{
		"serve", "--listen", w.address, "--grpc-listen", w.grpc, "--trusted-proxies", "127.0.0.1/32", "--log-format", "json",
		"--gates", file(t, "gates.yaml"),
	}, flags...)
	p := start(t, []string{"VELOCITY_DSN=" + w.db.DSN}, velocityd(t), args...)
	p.await(t, w.address)
	return p
}

// secrets are files for TLS: the certificate of an authority, and a pair for a gateway that it has signed.
type secrets struct {
	ca     string
	client handlerstest.Mount
}

// overTLS starts a second velocityd on the world's database, which speaks TLS and asks for certificates of clients or
// tokens.
func (w *world) overTLS(t *testing.T) (*world, secrets) {
	t.Helper()
	authority := handlerstest.NewAuthority(t)
	s := secrets{ca: filepath.Join(t.TempDir(), "ca.pem"), client: handlerstest.NewMount(t, authority.Issue(t, "client"))}
	if err := os.WriteFile(s.ca, authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	server, secure := handlerstest.NewMount(t, authority.Issue(t, "server")), *w
	secure.address, secure.grpc = freeAddress(t), freeAddress(t)
	secure.serve(t, "--require-auth", "--tls-cert", server.Cert(), "--tls-key", server.Key(), "--tls-client-ca", s.ca)
	return &secure, s
}

// away returns the world of a gateway that asks an address where velocityd is not.
func away(t *testing.T, address string) *world {
	t.Helper()
	return &world{app: newApplication(t), address: address, grpc: address, token: printedToken}
}

// reportAttempt tells velocityd how the login of a request ended, by the attempt's id.
func (w *world) reportAttempt(r *http.Request, outcome string) error {
	return w.reportTo(r.Context(), "/v1/attempts/"+url.PathEscape(r.Header.Get("X-Request-Id"))+"/outcome", outcome)
}

// reportTxn is the same by the id of its txn.
func (w *world) reportTxn(r *http.Request, outcome string) error {
	return w.reportTo(r.Context(), "/v1/txns/"+r.Header.Get("X-Velocity-Txn-Id")+"/outcome", outcome)
}

func (w *world) reportTo(ctx context.Context, path, outcome string) error {
	body := strings.NewReader(`{"outcome":"` + outcome + `"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+path, body) //nolint:gosec // to velocityd
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", w.token)
	response, err := http.DefaultClient.Do(r) //nolint:gosec // to velocityd
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s (%w)", path, response.StatusCode, text, err)
	}
	return nil
}

// configure writes a configuration of this folder to a temporary one: see write.
func (w *world) configure(t *testing.T, name, listen string, replace ...string) string {
	t.Helper()
	return w.write(t, filepath.Base(name), text(t, name), listen, replace...)
}

// text returns a file of this folder.
func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// write writes a configuration to a temporary folder, with the addresses of the world and of the gateway in place of
// those that docs/doors prints. replace has more pairs, which come first.
func (w *world) write(t *testing.T, name, text, listen string, replace ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	replaced := strings.NewReplacer(slices.Concat(replace, w.names(listen))...).Replace(text)
	if err := os.WriteFile(path, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// names is pairs of a printed address, and the one that stands for it.
func (w *world) names(listen string) []string {
	return []string{
		"127.0.0.1:8080", w.address, "127.0.0.1:3000", w.app.address, "127.0.0.1:8000", listen, printedToken,
		w.token,
	}
}

// open is pairs for configure that make a gateway let requests pass while velocityd is away.
func open() []string {
	return []string{"# open: ", "", "failure_mode_allow: false", "failure_mode_allow: true"}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", enginetest.FreePort(t))
}

func file(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reply is an answer as the user sees it.
type reply struct {
	status int
	header http.Header
	body   string
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a request from an address of the loopback, on a separate connection.
func send(t *testing.T, r *http.Request, from string) (reply, error) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(body)}, err
}
