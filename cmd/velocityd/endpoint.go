package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"velocityd/client"
	events "velocityd/cmd/velocityd/event"
	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/txn"
	"velocityd/daemon"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/barred"
	"velocityd/trusted"
)

const (
	localTimeout  = 10 * time.Second // of one call to the database
	remoteTimeout = 30 * time.Second // of one call to a service, whose own deadline is shorter
)

// endpointFlags tell whether to ask a running service or the database itself.
type endpointFlags struct {
	URL           string `name:"url" env:"VELOCITY_URL" placeholder:"URL" help:"Ask the service at this address, such as http://127.0.0.1:8080, instead of the database."`
	CA            string `name:"ca" env:"VELOCITY_CA" placeholder:"FILE" help:"With --url https://...: certificates, in PEM, of those who may sign the service's. Left out: those that this machine trusts."`
	tokenFlags    `embed:""`
	databaseFlags `embed:""`
	keyFlags      `embed:""`
}

// AfterApply implements kong's hook that is called when all flags have values. A flag
// wins over all environment variables: with a flag of the database, VELOCITY_URL is not
// meant.
func (f *endpointFlags) AfterApply(command *kong.Context, p *shell.Process) error {
	f.inherited, _ = p.LookupEnv("VELOCITY_TOKEN")
	switch byURL, byDatabase := shell.Given(command, "url"), shell.Given(command, "dsn", "dsn-file", "data"); {
	case byURL && byDatabase:
		return shell.Usagef("--url names a service, and --dsn, --dsn-file and --data a database: leave one out")
	case byDatabase:
		f.URL = ""
	}
	return f.databaseFlags.AfterApply(command, p) // kong sees this method instead
}

// endpoint answers the operator's commands: it is a service or a database. Checks and
// reports that have begun are finished even if their context ends.
type endpoint struct {
	handlers.Reader
	handlers.Writer
	service.Checker
	history  txn.Source
	events   events.Source
	webhooks events.Webhooks
	full     func(ctx context.Context, zoneID int64) (barred.Looked, error)
	timeout  time.Duration // of checks and reports
	release  func()        // closes the connections
}

// open returns the service at --url, or the database if --url is not given.
func (f endpointFlags) open(ctx context.Context) (endpoint, error) {
	if f.URL != "" {
		return f.openService()
	}
	keys, err := f.keyring()
	if err != nil {
		return endpoint{}, err
	}
	store, err := f.databaseFlags.open(ctx)
	if errors.Is(err, errNoDatabase) {
		return endpoint{}, shell.Usagef("%w; or name a service with --url", err)
	}
	if err != nil {
		return endpoint{}, err
	}
	proving, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	if err := store.ProveKeys(proving, keys.Keys()); err != nil {
		_ = store.Close() // the first error says more
		return endpoint{}, err
	}
	hiding := daemon.HidingStore{Store: store, Keys: keys}
	return endpoint{
		Reader: hiding, Writer: hiding,
		Checker:  service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: keys, Timeout: localTimeout}),
		history:  txn.Local{Store: store, RecordedKeys: hiding.NamedKeys},
		events:   events.Local{Store: store, RecordedKeys: hiding.NamedKeys},
		webhooks: events.LocalWebhooks{Store: store},
		full: func(ctx context.Context, zoneID int64) (barred.Looked, error) {
			return barred.FindFull(ctx, hiding, zoneID)
		},
		timeout: localTimeout, release: func() { _ = store.Close() },
	}, nil
}

// openService returns the service at --url. It connects to nothing.
func (f endpointFlags) openService() (endpoint, error) {
	token, err := f.token()
	if err != nil {
		return endpoint{}, err
	}
	options := []client.Option{client.WithTimeout(remoteTimeout), client.WithUserAgent("velocityd/" + version()), client.WithToken(token)}
	if f.CA != "" {
		roots, err := readRoots(f.CA)
		if err != nil {
			return endpoint{}, shell.Usagef("--ca (VELOCITY_CA): %w", err)
		}
		options = append(options, client.WithRootCAs(roots))
	}
	remote, err := client.New(f.URL, options...)
	if errors.Is(err, service.ErrInvalid) {
		return endpoint{}, shell.Usagef("--url must be the address of a service, such as http://127.0.0.1:8080")
	}
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{
		Reader: remote, Writer: remote, Checker: remote, history: remote, events: remote, webhooks: remote, full: remote.Full,
		timeout: remoteTimeout, release: remote.Close,
	}, nil
}

// readRoots returns the certificates of a file.
func readRoots(path string) (*x509.CertPool, error) {
	text, err := trusted.Read(path, trusted.LongLimit)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return roots, nil
}

// Zone returns a zone. If there is none, the error says where to look.
func (e endpoint) Zone(ctx context.Context, id int64) (service.Zone, error) {
	zone, err := e.Reader.Zone(ctx, id)
	return zone, explainNoZone(err)
}

// Overrides returns overrides of a zone. If there is no such zone, the error says where to look.
func (e endpoint) Overrides(ctx context.Context, zone int64, after uint64, limit int) ([]service.Override, error) {
	overrides, err := e.Reader.Overrides(ctx, zone, after, limit)
	return overrides, explainNoZone(err)
}

// explainNoZone adds to service.ErrNotFound where the zones are listed.
func explainNoZone(err error) error {
	if errors.Is(err, service.ErrNotFound) {
		return fmt.Errorf("%w ('velocityd zone list' shows the zones)", err)
	}
	return err
}

// CheckAll implements service.Checker.
func (e endpoint) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.timeout)
	defer cancel()
	return e.Checker.CheckAll(ctx, checks)
}

// ReportAll implements service.OutcomeStore.
func (e endpoint) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.timeout)
	defer cancel()
	results, err := e.Writer.ReportAll(ctx, reports)
	if err == nil && len(results) != len(reports) {
		return nil, fmt.Errorf("%w: store answered %d of %d reports", service.ErrUndecided, len(results), len(reports))
	}
	return results, err
}
