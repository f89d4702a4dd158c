package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/client"
	"velocityd/handlers"
	"velocityd/service"
)

const (
	localTimeout  = 10 * time.Second // of one call at the database
	remoteTimeout = 30 * time.Second // of one call at a service, which has its own
)

// targetFlags is whom to ask: a running service, or the database itself.
type targetFlags struct {
	URL           string `name:"url" env:"VELOCITY_URL" placeholder:"URL" help:"Ask the service that runs there, such as http://127.0.0.1:8080, in place of the database."`
	databaseFlags `embed:""`
}

// target is who answers the operator's commands. It finishes checks and reports
// that it has begun even if their context ends.
type target struct {
	handlers.Reader
	handlers.Writer
	service.CheckStore
	timeout time.Duration // of a report
	release func()        // lets it go
}

// open returns the service of --url, or else the database.
func (f targetFlags) open(ctx context.Context) (target, error) {
	if f.URL != "" {
		remote, err := client.New(f.URL, client.WithTimeout(remoteTimeout), client.WithUserAgent("velocityd/"+version()))
		if errors.Is(err, service.ErrInvalid) {
			return target{}, usagef("--url must be like http://127.0.0.1:8080")
		}
		if err != nil {
			return target{}, err
		}
		return target{
			Reader: remote, Writer: remote, CheckStore: service.NewLimiter(remote, remoteTimeout),
			timeout: remoteTimeout, release: remote.Close,
		}, nil
	}
	store, err := f.databaseFlags.open(ctx)
	if err != nil {
		return target{}, err
	}
	return target{
		Reader: store, Writer: store, CheckStore: service.NewNormalizingLimiter(store, store, localTimeout),
		timeout: localTimeout, release: func() { _ = store.Close() },
	}, nil
}

// ReportAll implements service.OutcomeStore.
func (t target) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return unhurried{t.Writer, t.timeout}.ReportAll(ctx, reports)
}

// unhurried gives each report a deadline of its own in place of the caller's, as
// service.Limiter does with checks.
type unhurried struct {
	store   service.OutcomeStore
	timeout time.Duration
}

// ReportAll implements service.OutcomeStore.
func (u unhurried) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.timeout)
	defer cancel()
	results, err := u.store.ReportAll(ctx, reports)
	if err == nil && len(results) != len(reports) {
		return nil, fmt.Errorf("%w: store answered %d of %d reports", service.ErrUndecided, len(results), len(reports))
	}
	return results, err
}
