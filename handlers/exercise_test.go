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
	*servicetest.Memory
	client *handlerstest.Client
}

func (o overHTTP) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return o.client.CheckAll(ctx, checks)
}

func TestHTTPKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
		r := start(t, nil)
		client := handlerstest.New(r.url)
		t.Cleanup(client.Close)
		return overHTTP{Memory: r.Memory, client: client}
	})
}
