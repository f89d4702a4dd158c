package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/webhook"
)

const (
	// readyTimeout bounds the question whether the instance is ready, above the server's own time for it.
	readyTimeout = 3 * time.Second
	// lateness is how long after the time of its next run a task is late.
	lateness = 5 * time.Minute
)

// readiness returns whether the instance can decide checks. It waits for it even where the time of the page is over.
func (v *visit) readiness() (client.Readiness, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), readyTimeout)
	defer cancel()
	return v.api.Readiness(ctx)
}

// health is the content of the page of health.
type health struct {
	Ready     client.Readiness
	OldestTxn service.Instant
	// Rest are the tasks that are not fine. Last is when one of the Fine ones last ended well.
	Rest, Fine []task
	Last       service.Instant
	// Webhooks are shown to readers with the scope admin.
	Webhooks  []webhook.Webhook
	MayResend bool
}

// health shows how the work in the background goes.
func (v *visit) health() error {
	state, err := v.api.Retention(v.r.Context())
	if err != nil {
		return err
	}
	h := health{OldestTxn: state.OldestTxn, MayResend: v.mayEverywhere(access.ScopeAdmin)}
	if h.Ready, err = v.readiness(); err != nil {
		return err
	}
	for _, t := range state.Tasks {
		one := task{t, !t.NextAt.IsZero() && v.Now().Sub(t.NextAt.Time) > lateness}
		if t.Error != "" || t.BeganAt.IsZero() || t.Backlog || one.IsLate {
			h.Rest = append(h.Rest, one)
			continue
		}
		if h.Fine = append(h.Fine, one); t.SucceededAt.After(h.Last.Time) {
			h.Last = t.SucceededAt
		}
	}
	if h.MayResend {
		if h.Webhooks, err = v.api.Webhooks(v.r.Context()); err != nil {
			return err
		}
	}
	return v.show("health", "Health", "Health", h)
}

// task is a task of the work in the background.
type task struct {
	service.RetentionTask
	IsLate bool // no instance has begun its next run
}

// mayEverywhere reports whether the reader has a scope in all zones.
func (v *visit) mayEverywhere(scope access.Scope) bool {
	return v.may(scope) && (v.reader.IsOpen || !v.reader.IsBound())
}

// deliveries is the content of the page of the events that a webhook has not received.
type deliveries struct {
	ID   uint64
	List []webhook.Delivery
	Next uint64 // the event behind which the next page begins; 0: there is none
	Dead bool   // some is tried no more
}

// deliveries shows the events that a webhook has not received.
func (v *visit) deliveries() error {
	id, ok := v.pathID("webhook")
	if !ok {
		return v.unknown()
	}
	after, _ := strconv.ParseUint(v.r.URL.Query().Get("after"), 10, 64) // 0 begins at the first one
	list, err := v.api.Deliveries(v.r.Context(), id, after)
	if err != nil {
		return err
	}
	d := deliveries{ID: id, List: list}
	for _, one := range list {
		d.Dead = d.Dead || one.NextAt.IsZero()
	}
	if len(list) == webhook.MaxDeliveries {
		d.Next = list[len(list)-1].EventID
	}
	return v.show("deliveries", "Health", fmt.Sprintf("Deliveries of webhook %d", id), d)
}

// resend has dead deliveries of a webhook tried again: that of one event, or all.
func (v *visit) resend() error {
	id, ok := v.pathID("webhook")
	if !ok {
		return v.unknown()
	}
	ctx, err := v.withReason()
	if err != nil {
		return err
	}
	event, _ := strconv.ParseUint(v.r.PostForm.Get("event"), 10, 64) // 0 is all
	if _, err := v.api.Resend(ctx, id, event, ""); err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("health/webhooks/%d?done=resend", id))
}

// diagnosis is the content of the page of the doctor.
type diagnosis struct {
	api.Diagnosis // the worst finding first
	// IsLate says that the examination was not over within the deadline of the page.
	IsLate bool
}

// doctor shows what "velocityd doctor" has to say, as the instance finds it.
func (v *visit) doctor() error {
	found, err := v.api.Diagnose(v.r.Context())
	isLate := errors.Is(err, service.ErrBusy)
	if err != nil && !isLate {
		return err
	}
	slices.SortStableFunc(found.Findings, func(a, b service.Diagnosis) int { return cmp.Compare(weight(a), weight(b)) })
	return v.show("doctor", "Health", "Diagnosis", diagnosis{found, isLate})
}

// weight is lower for findings that matter more.
func weight(d service.Diagnosis) int {
	return slices.Index([]string{"fault", "warning", "note", "ok"}, d.Level)
}
