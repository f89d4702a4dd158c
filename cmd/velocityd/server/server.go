// Package server owns the running service: its listeners, readiness, the state folder, the
// folder of keys, the files of TLS, and the wiring of all parts that answer a check. It must not
// know flags, environment variables, commands or exit codes.
package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/service/webhook"
	"velocityd/telemetry"
)

const (
	// connectTimeout bounds one try to reach a database and look at its schema.
	connectTimeout = 5 * time.Second
	// reconnectPause is the time between two tries to reach a database that is away.
	reconnectPause = time.Second
)

// Options are the settings of an instance. In the nested parts, the instance itself fills in the hooks,
// and the stores that it makes.
type Options struct {
	Database    session.Options
	Coalescer   *queue.CoalescerOptions // nil: each call goes to the database by itself
	HTTP        handlers.Options        // of which Auth has TrustedProxies alone
	Connections wire.Options

	CheckTimeout    time.Duration // deadline of one call for checks, outcomes or changes
	DegradedAfter   time.Duration // silence of the database after which checks are answered without it
	DrainDelay      time.Duration // time between answering "not ready" and accepting no more connections
	ShutdownTimeout time.Duration // for requests in flight to end

	StateDir  string           // "": nothing is remembered across a restart
	Keys      *service.Keyring // never nil
	KeyFolder string           // from which Keys were read, and are read again; "" if there is none

	Retention bool // the instance takes part in the work of retention, and sends events to webhooks
	// SendEvent sends an event to a webhook; nil: none is sent.
	SendEvent webhook.Send

	Gates *GateFile // nil: there are no named gates

	Origins *geoip.DB // nil: the network and the country of addresses are not known

	RequireAuth    bool // callers on this machine must prove their identity, too
	InsecureNoAuth bool // no caller must prove its identity
	// StartsEmpty makes the instance serve also while no caller has a credential.
	StartsEmpty bool
	// Listening is called once, when callers are answered. It may be nil.
	Listening func(context.Context)

	Console ConsoleOptions

	Logger  *slog.Logger
	Metrics *telemetry.Metrics // nil: nothing is counted
	Tracing *telemetry.Tracing // nil: there are no traces
}

// ConsoleKeyLength is the length of the secret of a console, in bytes.
const ConsoleKeyLength = 32

// ConsoleOptions are the settings of the pages for people.
type ConsoleOptions struct {
	IsOn      bool
	LoginZone int64  // 0: log-ins are not limited
	Key       []byte // of ConsoleKeyLength; nil: a random one
}

// RequiresAuth reports whether callers at an address must prove their identity.
func (o Options) RequiresAuth(address net.Addr) bool {
	return o.RequireAuth || !o.InsecureNoAuth && !IsLoopback(address)
}

// IsLoopback reports whether only programs on this machine reach an address.
func IsLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
