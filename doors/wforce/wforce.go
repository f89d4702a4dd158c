// Package wforce owns the paths below /wforce/: the protocol of weakforced, which Dovecot speaks as its auth policy. It
// is a client of the HTTP interface, in process and with the caller's credential, so rights, limits and the log are
// those of the interface. It must not know SQL or how a check is decided. Its one rule of its own tells which requests
// are about one attempt.
package wforce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/client/inprocess"
	"velocityd/handlers/admission"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/shares"
)

// Path is the path below which New answers.
const Path = "/wforce/"

// deadline is that of a whole answer. Dovecot waits for 2 s, and ignores a late answer.
const deadline = 1800 * time.Millisecond

// Attempts recalls attempts by their ids: see service.Recall. The error wraps service.ErrNotFound for an id that is not
// remembered.
type Attempts interface {
	Attempt(ctx context.Context, id string) (service.Recall, error)
}

// Options are the parts of New. Both are required.
type Options struct {
	// API is the HTTP interface, which this package calls in process.
	API http.Handler
	// Attempts is asked only for attempts of this package, whose ids only their caller knows. It is not asked over the
	// HTTP interface, because a mail server must not have the scope that reads all attempts.
	Attempts Attempts
}

// New returns the handler of everything below Path. Each answer is there within 1.8 s.
func New(o Options) http.Handler {
	d := &handler{
		Options: o, commands: commands(),
		large: shares.NewHalves[string](mostLarge, "large bodies"),
		late:  shares.NewHalves[string](mostLate, "late reports"),
	}
	mux := http.NewServeMux()
	for _, below := range []string{"{user}/{address}", "{user}/{address}/{$}", "{user}/{address}/command/{command}", ""} {
		mux.Handle(Path+below, d)
	}
	return mux
}

// handler is the state that all calls share.
type handler struct {
	Options
	commands map[string]command
	recent   recentAttempts
	large    *shares.Pool[string] // of large bodies that are read
	late     *shares.Pool[string] // of reports that go on when their caller leaves
}

// call is one request of a known caller.
type call struct {
	*handler
	api *client.Client
	// shareKey names the caller whose share it takes: the credential, or in an open service the connection's address.
	shareKey string
	tuple    tuple
	secret   string // goes into attempt ids: see attempt
	// user and address are the zones that the path names; 0 leaves one out.
	user, address int64
}

// command carries out a call.
type command func(*call, context.Context) (any, error)

// commands returns all commands, by method and name.
func commands() map[string]command {
	return map[string]command{
		"POST allow":      (*call).allow,
		"POST report":     (*call).report,
		"POST reset":      (*call).reset,
		"POST getDBStats": (*call).stats,
		"POST addBLEntry": addsEntry(service.OverrideDeny),
		"POST delBLEntry": dropsEntry(service.OverrideDeny),
		"POST addWLEntry": addsEntry(service.OverrideAllow),
		"POST delWLEntry": dropsEntry(service.OverrideAllow),
		"GET getBL":       listsEntries(service.OverrideDeny, "bl_entries"),
		"GET getWL":       listsEntries(service.OverrideAllow, "wl_entries"),
		"GET ping":        func(*call, context.Context) (any, error) { return done(), nil },
	}
}

// done is the answer of a command that has nothing else to tell.
func done() any { return map[string]string{"status": "ok"} }

// unknown is the answer to a path or command that does not exist, and errUnknown its error.
const unknown = "no such command: the path is /wforce/{zone of users}/{zone of addresses}/?command={command}"

var errUnknown = fmt.Errorf("%w: %s", api.ErrNoRoute, unknown)

// ServeHTTP answers one request in time, and logs an answer that would have been late.
func (d *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var isAnswered atomic.Bool
	inTime := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.answer(w, r)
		isAnswered.Store(true)
	})
	http.TimeoutHandler(inTime, deadline, `{"status":"failure","reason":"The answer did not come in time."}`).ServeHTTP(
		w, r)
	if !isAnswered.Load() && r.Context().Err() == nil {
		admission.LogEntryOf(r.Context()).Refuse(
			fmt.Errorf("%w: the answer did not come within %s", service.ErrBusy, deadline))
	}
}

// answer answers one request.
func (d *handler) answer(w http.ResponseWriter, r *http.Request) {
	answer, err := d.carryOut(w, r)
	status := http.StatusOK
	if err != nil {
		status, answer = failure(err)
		admission.LogEntryOf(r.Context()).Refuse(err)
	}
	if status == http.StatusUnauthorized {
		// Basic is taken, too, and a browser must not ask for it.
		w.Header().Set("WWW-Authenticate", `Bearer realm="velocityd"`)
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // an error means that the caller has gone
}

// carryOut finds the caller before it reads a body, and carries out the command.
func (d *handler) carryOut(w http.ResponseWriter, r *http.Request) (any, error) {
	asker, err := client.New("http://velocityd", client.WithUserAgent("velocityd-wforce"),
		client.WithHTTPClient(&http.Client{Transport: inprocess.Transport{API: d.API, Caller: r}}))
	if err != nil {
		return nil, err
	}
	who, err := asker.Identity(r.Context(), "")
	if err != nil {
		return nil, err
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	name := cmp.Or(r.PathValue("command"), r.URL.Query().Get("command"))
	carryOut := d.commands[r.Method+" "+name]
	c := &call{
		handler: d, api: asker, shareKey: cmp.Or(who.Name, wire.NetworkOf(peer.Addr()).String()),
		secret: secretOf(r),
	}
	if carryOut == nil || !zoneIn(r, "user", &c.user) || !zoneIn(r, "address", &c.address) || c.user+c.address == 0 {
		return nil, errUnknown
	}
	if r.Method == http.MethodPost {
		if c.tuple, err = c.readTuple(w, r); err != nil {
			return nil, err
		}
	}
	return carryOut(c, r.Context())
}

// zoneIn reads the zone at a place of the path.
func zoneIn(r *http.Request, place string, zone *int64) (ok bool) {
	n, err := strconv.ParseInt(r.PathValue(place), 10, 64)
	*zone = n
	return err == nil && n >= 0
}

// failure returns the answer to a request that was not carried out. Dovecot logs the status, and then acts as without
// an answer.
func failure(err error) (status int, answer any) {
	reason := err.Error()
	kind, _ := api.KindOf(err)
	status = kind.Status
	var problem *api.Problem
	var full *shares.FullError
	switch {
	case errors.As(err, &full):
		reason = full.Error()
	case errors.Is(err, errUnknown):
		reason = unknown
	case errors.Is(err, access.ErrUnauthenticated):
		reason = "Unauthorized" // as weakforced says it
	case errors.As(err, &problem):
		reason = problem.Detail
	case kind.Detail != "":
		reason = kind.Detail
	}
	return status, map[string]string{"status": "failure", "reason": reason}
}
