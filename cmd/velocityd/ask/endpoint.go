// Package ask opens the service or the database that a command asks, by its URL or its DSN, with its token and its
// keys. It must not know any command.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"velocityd/client"
	"velocityd/client/inprocess"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db"
	"velocityd/handlers"
	"velocityd/service"
)

// Deadlines of calls.
const (
	LocalTimeout  = 10 * time.Second // of one call to the database
	remoteTimeout = 30 * time.Second // of one call to a service, whose own deadline is shorter
)

// Flags tell whether to ask a running service or the database itself.
type Flags struct {
	ServiceFlags  `embed:""`
	DatabaseFlags `embed:""`
	KeyFlags      `embed:""`
}

// AfterApply implements kong's hook that is called when all flags have values. A flag
// wins over all environment variables: with a flag of the database, VELOCITY_URL is not
// meant.
func (f *Flags) AfterApply(command *kong.Context, p *shell.Process) error {
	f.ServiceFlags.inherit(p)
	switch byURL, byDatabase := shell.Given(command, "url"), shell.Given(command, "dsn", "dsn-file", "data"); {
	case byURL && byDatabase:
		return shell.Usagef("--url names a service, and --dsn, --dsn-file and --data a database: leave one out")
	case byDatabase:
		f.URL = ""
	}
	return f.DatabaseFlags.AfterApply(command, p) // kong may see this method alone
}

// Endpoint answers the operator's commands: it is a service, over the network or in this process. Checks and
// reports that have begun are finished even if their context ends.
type Endpoint struct {
	handlers.Reader
	handlers.Writer
	Client  *client.Client
	Origin  func(key string) *service.Origin // of a bucket key; nil if there are no files of networks
	timeout time.Duration                    // of checks and reports
	Close   func()                           // closes the connections
}

// Open returns the service at --url, or if --url is not given, one in this process on the database.
func (f Flags) Open(ctx context.Context) (Endpoint, error) {
	if f.URL != "" {
		remote, err := f.ServiceFlags.Client(client.WithTimeout(remoteTimeout))
		return Endpoint{Reader: remote, Writer: remote, Client: remote, timeout: remoteTimeout, Close: remote.Close}, err
	}
	keys, err := f.Keyring()
	if err != nil {
		return Endpoint{}, err
	}
	store, err := f.DatabaseFlags.Open(ctx)
	if errors.Is(err, errNoDatabase) {
		return Endpoint{}, shell.Usagef("%w; or name a service with --url", err)
	}
	if err != nil {
		return Endpoint{}, err
	}
	proving, cancel := context.WithTimeout(ctx, LocalTimeout)
	defer cancel()
	here, err := newLocal(store, keys)
	if err = cmp.Or(store.CompareKeys(proving, keys.Keys()), err); err != nil {
		_ = store.Close() // the first error says more
		return Endpoint{}, err
	}
	return Endpoint{Reader: here, Writer: here, Client: here, timeout: LocalTimeout, Close: func() { _ = store.Close() }},
		nil
}

// newLocal returns a client of the HTTP interface over a database, in this process. It asks for no token: the rights of
// the database's account decide. A refusal has the engine's own words.
func newLocal(store *db.Store, keys *service.Keyring) (*client.Client, error) {
	records := server.WithPseudonyms(store, keys)
	return client.New("http://in.process", client.InProcess(handlers.New(handlers.Options{
		Limiter: service.NewLimiter(store, service.LimiterOptions{Zones: store.Records, Keys: keys, Timeout: LocalTimeout}),
		Reader:  records, Writer: records, Exports: records, RecordedKeys: records.RecordedKeys,
		Webhooks: records, Registry: store.Records, Retention: store.RetentionRunner(), InProcess: true,
		Observe: func(ctx context.Context, request handlers.Observed) { inprocess.Blame(ctx, request.Err) },
	})))
}

// Zone returns a zone. If there is none, the error says where to look.
func (e Endpoint) Zone(ctx context.Context, id int64) (service.Zone, error) {
	zone, err := e.Reader.Zone(ctx, id)
	return zone, ExplainNoZone(err)
}

// Overrides returns overrides of a zone. If there is no such zone, the error says where to look.
func (e Endpoint) Overrides(ctx context.Context, zone int64, after uint64, limit int) ([]service.Override, error) {
	overrides, err := e.Reader.Overrides(ctx, zone, after, limit)
	return overrides, ExplainNoZone(err)
}

// ExplainNoZone adds to service.ErrNotFound where the zones are listed.
func ExplainNoZone(err error) error {
	if errors.Is(err, service.ErrNotFound) {
		return fmt.Errorf("%w ('velocityd zone list' shows the zones)", err)
	}
	return err
}

// ExplainCheck adds to an error of checks what to do about it.
func ExplainCheck(err error) error {
	switch {
	case errors.Is(err, service.ErrNotFound):
		return ExplainNoZone(err)
	case errors.Is(err, service.ErrUndecided):
		return fmt.Errorf("%w: the answer was lost, and the attempt may have been counted", err)
	}
	return err
}

// CheckAll implements service.Checker.
func (e Endpoint) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.timeout)
	defer cancel()
	return e.Client.CheckAll(ctx, checks)
}

// ReportAll implements service.OutcomeStore.
func (e Endpoint) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.timeout)
	defer cancel()
	return e.Client.ReportAll(ctx, reports)
}
