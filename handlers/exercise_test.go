package handlers

import (
	"context"
	"testing"

	"velocityd/handlers/handlerstest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

// overHTTP is the reference store, asked through the HTTP interface.
type overHTTP struct {
	servicetest.Bench
	client *handlerstest.Client
}

func (o overHTTP) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return o.client.CheckAll(ctx, checks)
}

func (o overHTTP) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return o.client.ReportAll(ctx, reports)
}

func (o overHTTP) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return o.client.Peek(ctx, bucket)
}

func (o overHTTP) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return o.client.Release(ctx, bucket, principal, reason)
}

func TestHTTPKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
		r := start(t, nil)
		client := handlerstest.New(r.url)
		t.Cleanup(client.Close)
		return overHTTP{Bench: r.Memory.Bench(), client: client}
	})
}
