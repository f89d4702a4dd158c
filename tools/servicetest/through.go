package servicetest

import (
	"context"

	"velocityd/service"
)

// Asker is the part of a Subject that callers use, without the powers of a DBA.
type Asker interface {
	service.Checker
	service.OutcomeStore
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
	Release(ctx context.Context, bucket service.Bucket, principal, reason string) error
	// Attempt returns the answer and the txns of an attempt by its id.
	Attempt(ctx context.Context, id string) (service.Recall, error)
}

// Through returns a Subject whose checks, reports, looks and releases go to asker, such as
// a client of an HTTP server in front of b's store. All else goes to b.
func Through(b Subject, asker Asker) Subject { return through{Subject: b, asker: asker} }

type through struct {
	Subject
	asker Asker
}

// CheckAll implements service.Checker.
func (t through) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return t.asker.CheckAll(ctx, checks)
}

// ReportAll implements service.OutcomeStore.
func (t through) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return t.asker.ReportAll(ctx, reports)
}

// Peek implements Asker.
func (t through) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return t.asker.Peek(ctx, bucket)
}

// Release implements Asker.
func (t through) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return t.asker.Release(ctx, bucket, principal, reason)
}

// Attempt implements Asker.
func (t through) Attempt(ctx context.Context, id string) (service.Recall, error) {
	return t.asker.Attempt(ctx, id)
}
