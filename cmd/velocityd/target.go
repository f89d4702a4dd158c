package main

import (
	"context"
	"fmt"
	"time"

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

// target is who answers. It finishes calls that it has begun even if their
// context ends.
type target struct {
	service.CheckStore
	service.OutcomeStore
	service.ZoneLister
	release func() // lets it go
}

func (f targetFlags) open(ctx context.Context) (target, error) {
	if f.URL != "" {
		remote, err := newRemote(f.URL)
		if err != nil {
			return target{}, err
		}
		return target{
			CheckStore:   service.NewLimiter(remote, remoteTimeout),
			OutcomeStore: unhurried{remote, remoteTimeout},
			ZoneLister:   remote, release: remote.close,
		}, nil
	}
	store, err := f.databaseFlags.open(ctx)
	if err != nil {
		return target{}, err
	}
	return target{
		CheckStore:   service.NewNormalizingLimiter(store, store, localTimeout),
		OutcomeStore: unhurried{store, localTimeout},
		ZoneLister:   store, release: func() { _ = store.Close() },
	}, nil
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
