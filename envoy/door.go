package envoy

import (
	"context"
	"log/slog"

	"velocityd/front"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
)

// Gates are the gates and the domains that are in force.
type Gates interface {
	Gate(name string) (gate.Gate, bool)
	Domain(name string) (gate.Domain, bool)
}

// Buckets shows buckets without an attempt. A bucket's key must be normalised by the rule of its zone.
type Buckets interface {
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
}

// door is what the services of a server share.
type door struct {
	options Options
	faults  *front.FaultLog
}

// caller finds out who calls, and whether he may ask for checks.
func (d *door) caller(ctx context.Context) (front.Asker, error) {
	asker := front.Asker{}
	if d.options.Admission.IsOpen() {
		return asker, nil
	}
	asker.Needs = []access.Scope{access.ScopeCheck}
	digest, given := credentialIn(ctx)
	var err error
	if asker.Caller, err = d.options.Admission.Identify(ctx, digest, given); err != nil {
		return asker, err
	}
	return asker, asker.May()
}

// ask asks one check, and notes it.
func ask(ctx context.Context, limiter service.Checker, check service.Check, asked *front.Asked) (service.Decision, error) {
	asked.Checks = []service.Check{check}
	var err error
	if asked.Decisions, err = limiter.CheckAll(ctx, asked.Checks); err != nil {
		return service.Decision{}, err
	}
	return asked.Decisions[0], asked.Decisions[0].Err
}

// report has the faults of an answered call logged. err is its error.
func (d *door) report(ctx context.Context, route string, asked front.Asked, err error) {
	for _, fault := range asked.Faults(err, faultOf) {
		if fault.Kind == front.None {
			continue
		}
		fault.Method, fault.Route = "gRPC", route
		d.faults.Report(ctx, fault, asked.ZoneIDs(), func() []slog.Attr {
			return asked.AppendAttrs([]slog.Attr{slog.String("route", route)})
		})
	}
}
