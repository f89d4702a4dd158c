// Package webhook defines webhooks, and when an event is sent to one: in order for each bucket, again after a
// failure, and not for ever. It must not know how events are stored or sent.
package webhook

import (
	"context"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"velocityd/service"
	"velocityd/service/event"
)

const (
	// MaxWebhooks is how many webhooks there may be.
	MaxWebhooks = 32
	// MaxURL is the longest URL in bytes.
	MaxURL = 1024
	// MaxDescription is the longest description in characters.
	MaxDescription = 255
	// MaxDeliveries is how many deliveries are shown at once.
	MaxDeliveries = 1000
	// MaxTypes is how many types one webhook may name.
	MaxTypes = 16
	// MaxZones is how many zones one webhook may name.
	MaxZones = 64
)

// Webhook is a receiver of events.
type Webhook struct {
	ID  uint64 `json:"id,string"`
	URL string `json:"url"`
	// Types and Zones choose the events, as those of event.Query do. Empty lists let all pass.
	Types       []event.Type    `json:"types,omitzero"`
	Zones       []int64         `json:"zones,omitzero"`
	Description string          `json:"description"`
	CreatedAt   service.Instant `json:"created_at"`
	CreatedBy   string          `json:"created_by"`
	State
}

// State is how far a webhook is.
type State struct {
	// Position is the id of the last event that was looked at.
	Position uint64 `json:"position,string,omitzero"`
	// Waiting is how many events failed and are tried again, or wait behind such one. Dead is how many are tried no more.
	Waiting int `json:"waiting"`
	Dead    int `json:"dead"`
	// Lag is how long ago the oldest event was written that is neither received nor dead, or not looked at yet; 0
	// if there is none. It is some seconds for a while after each event.
	Lag service.Duration `json:"lag"`
	// SucceededAt is when an event was received last, and FailedAt when one was not. They are zero for never.
	SucceededAt service.Instant `json:"succeeded_at,omitzero"`
	FailedAt    service.Instant `json:"failed_at,omitzero"`
	// Error is the reason of the last failure, or empty after a success.
	Error string `json:"error,omitzero"`
}

// Validate returns an ErrInvalid that names the field, or nil. It does NOT ask whether the receiver may be called.
func (w *Webhook) Validate() error {
	at, err := url.Parse(w.URL)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || len(w.URL) > MaxURL:
		return service.NewFieldError(
			"url", "must be an address such as https://hooks.example.com/velocityd, of up to %d bytes", MaxURL)
	case !mayBeReached(at):
		return service.NewFieldError("url", "must name a host that can be reached: no multicast or unspecified address, no "+
			"port 0, no name that no host can have")
	case at.User != nil || at.Fragment != "":
		return service.NewFieldError("url", "must have no user and no fragment: the signature names the sender")
	case len([]rune(w.Description)) > MaxDescription:
		return service.NewFieldError("description", "must be at most %d characters", MaxDescription)
	case strings.ContainsFunc(w.URL, func(r rune) bool { return r <= ' ' || r > '~' }):
		return service.NewFieldError(
			"url", "must be printable ASCII without spaces: write a host in the form xn--…, and others as %%xx")
	case len(w.Types) > MaxTypes:
		return service.NewFieldError("types", "must be at most %d", MaxTypes)
	case len(w.Zones) > MaxZones:
		return service.NewFieldError("zones", "must be at most %d", MaxZones)
	}
	for _, zone := range w.Zones {
		if zone < 1 || zone > service.MaxZoneID {
			return service.NewFieldError("zones", "must be ids of zones, 1 to %d", service.MaxZoneID)
		}
	}
	return event.ValidateTypes(w.Types)
}

// mayBeReached reports whether some host can listen there. It looks no name up: that is done for each delivery.
func mayBeReached(at *url.URL) bool {
	if at.Port() != "" {
		if port, err := strconv.ParseUint(at.Port(), 10, 16); err != nil || port == 0 {
			return false
		}
	}
	if address, err := netip.ParseAddr(at.Hostname()); err == nil {
		address = service.PlainAddr(address)
		return !address.IsMulticast() && !address.IsUnspecified() && address != netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}
	name := strings.TrimSuffix(at.Hostname(), ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if len(name) > 253 || strings.Trim(last, "0123456789") == "" { // a name of digits is a misspelt address
		return false
	}
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	for part := range strings.SplitSeq(name, ".") {
		if !label.MatchString(part) {
			return false
		}
	}
	return true
}

// Wants reports whether an event is for the webhook.
func (w *Webhook) Wants(e event.Event) bool {
	query := event.Query{Types: w.Types, Zones: w.Zones}
	return query.Matches(e)
}

// Delivery is an event that a webhook has not received at its first try.
type Delivery struct {
	EventID uint64     `json:"event_id,string"`
	Type    event.Type `json:"type,omitzero"` // empty if the event is no longer kept
	service.Bucket
	Tries int `json:"tries"`
	// NextAt is when it is tried again at the earliest, or zero for one that is tried no more.
	NextAt service.Instant `json:"next_at,omitzero"`
	Error  string          `json:"error,omitzero"`
}

// Store keeps webhooks. Errors wrap service.ErrNotFound for an unknown one, and service.ErrBusy if the engine is away.
type Store interface {
	// AddWebhook keeps a webhook, which gets the events that are written from now on, with the secret that signs them. The
	// error wraps service.ErrInvalid, or service.ErrConflict if there are MaxWebhooks.
	AddWebhook(ctx context.Context, w Webhook, secret, principal string) (Webhook, error)
	// Webhooks returns all webhooks by id.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// RemoveWebhook forgets a webhook and its deliveries.
	RemoveWebhook(ctx context.Context, id uint64, principal string) error
	// Deliveries returns at most MaxDeliveries deliveries of a webhook behind an event, by the ids of the events.
	Deliveries(ctx context.Context, id, after uint64) ([]Delivery, error)
	// Resend has dead deliveries of a webhook tried again: that of one event, or all if the event is 0. It returns how
	// many. The audit has it as an update of the webhook, unless there were none.
	Resend(ctx context.Context, id, eventID uint64, principal string) (int, error)
}
