package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/delivery"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/handlers/wire"
	"velocityd/service/queue"
)

// serviceFlags are the settings of an instance. They hold no secret.
type serviceFlags struct {
	Listen          string        `env:"VELOCITY_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to answer on; port 0 takes a free one."`
	CheckTimeout    time.Duration `env:"VELOCITY_CHECK_TIMEOUT" placeholder:"DURATION" default:"5s" help:"Deadline of one call for checks, outcomes or changes, whether or not the caller stays."`
	LockWait        time.Duration `env:"VELOCITY_LOCK_WAIT" placeholder:"DURATION" default:"${lock_wait}" help:"How long the engine waits for a bucket's lock, in whole seconds, below the check timeout."`
	MaxConns        int           `env:"VELOCITY_MAX_CONNS" default:"${max_conns}" placeholder:"N" help:"Most connections to the database for checks and look-ups. GET /readyz has one more."`
	Coalesce        string        `env:"VELOCITY_COALESCE" default:"on" enum:"on,off" placeholder:"on|off" help:"on: checks that arrive at the same time are decided in one batch, with one commit. off: each call goes to the database by itself."`
	Lanes           int           `env:"VELOCITY_LANES" default:"0" placeholder:"N" help:"Batches of lone checks that may be under way at once. 0 means one for each core, and at most a quarter of the connections."`
	Queue           int           `env:"VELOCITY_QUEUE" default:"${queue}" placeholder:"N" help:"Checks that may wait, at most a sixteenth of them for one bucket. Others are answered with 503 and Retry-After."`
	DrainDelay      time.Duration `env:"VELOCITY_DRAIN_DELAY" placeholder:"DURATION" default:"0s" help:"Time between answering 'not ready' and accepting no more connections, for load balancers to notice."`
	ShutdownTimeout time.Duration `env:"VELOCITY_SHUTDOWN_TIMEOUT" placeholder:"DURATION" default:"15s" help:"How long requests in flight may take to end when the service stops."`
	AccessLog       bool          `env:"VELOCITY_ACCESS_LOG" help:"Log one line for each request. Faults of the service are logged in any case, the same one at most once a second."`
	logFlags        `embed:""`
	listenFlags     `embed:""`
	DegradedAfter   time.Duration `env:"VELOCITY_DEGRADED_AFTER" placeholder:"DURATION" default:"${degraded_after}" help:"How long the database may be silent before it is tested, and may take to be connected to, before checks of zones with on_failure allow or block are answered without it."`
	StateDir        string        `env:"VELOCITY_STATE_DIR" placeholder:"DIR" help:"Folder in which the zones' settings and the credentials are kept, so that checks can be answered without the database after a restart, too. It is created if missing. Without it both are remembered until the service ends."`
	authFlags       `embed:""`
	Gates           string   `env:"VELOCITY_GATES" placeholder:"FILE" help:"File of named gates, which answer gateways at /gate/NAME ('velocityd gate lint' looks at it), and of domains of Envoy's Rate Limit Service. A changed file is read again by itself within seconds; one that is wrong leaves the gates before in force."`
	AddressDB       []string `name:"address-db" env:"VELOCITY_ADDRESS_DB" sep:"," placeholder:"FILE" help:"Files of networks in the format mmdb, such as GeoLite2-ASN.mmdb and GeoLite2-Country.mmdb: history, explanations and reports show network and country of addresses. No decision depends on them."`
	Metrics         string   `env:"VELOCITY_METRICS" default:"on" enum:"on,off" placeholder:"on|off" help:"on: GET /metrics answers Prometheus. off: nothing is counted, and there is no such path."`
	Retention       string   `env:"VELOCITY_RETENTION" default:"on" enum:"on,off" placeholder:"on|off" help:"on: this instance takes part in retention, which one instance among all carries out. off: it leaves that to others or to 'velocityd retain'."`
	WebhookHosts    []string `env:"VELOCITY_WEBHOOK_HOSTS" placeholder:"HOST,..." help:"Hosts of webhooks, by name or address, that may have private addresses, and be called without TLS, separated by commas. All others must have public addresses and https."`
	consoleFlags    `embed:""`
	ask.KeyFlags    `embed:""`
}

// validate returns a shell.UsageError for settings that cannot work together.
func (f serviceFlags) validate() error {
	switch {
	case f.LockWait < time.Second || f.LockWait%time.Second != 0:
		return shell.Usagef("--lock-wait must be whole seconds, at least 1s; it is %s", f.LockWait)
	case f.CheckTimeout <= f.LockWait:
		return shell.Usagef("--check-timeout (%s) must be above --lock-wait (%s), so that the engine gives up first and "+
			"the outcome stays known", f.CheckTimeout, f.LockWait)
	case f.ShutdownTimeout <= f.CheckTimeout:
		return shell.Usagef("--shutdown-timeout (%s) must be above --check-timeout (%s), so that every caller is answered",
			f.ShutdownTimeout, f.CheckTimeout)
	case f.DrainDelay < 0:
		return shell.Usagef("--drain-delay must not be negative; it is %s", f.DrainDelay)
	case f.MaxConns < session.LeastMaxConns:
		return shell.Usagef("--max-conns must be at least %d: one for checks, one for other requests and one that ends "+
			"what has run out of time; it is %d",
			session.LeastMaxConns, f.MaxConns)
	case f.Lanes < 0 || f.Lanes > max(1, f.MaxConns/2):
		return shell.Usagef(
			"--lanes must be 0 to %d, half of --max-conns (%d), because other requests need connections, too; it is %d",
			max(1, f.MaxConns/2), f.MaxConns, f.Lanes)
	case f.Queue < 1 || f.Queue > maxQueue:
		return shell.Usagef("--queue must be 1 to %d; it is %d", maxQueue, f.Queue)
	}
	if err := cmp.Or(validateAddress("--listen", f.Listen), f.listenFlags.validate(),
		f.consoleFlags.validate()); err != nil {
		return err
	}
	switch {
	case f.RequireAuth && f.InsecureNoAuth:
		return shell.Usagef("--require-auth and --insecure-no-auth contradict each other: leave one out")
	case f.ProxyProtocol && len(f.TrustedProxies) == 0:
		return shell.Usagef(
			"--proxy-protocol needs --trusted-proxies: only a trusted proxy may say which client a connection is of")
	case f.DegradedAfter < time.Millisecond || f.DegradedAfter >= f.CheckTimeout:
		return shell.Usagef("--degraded-after must be 1ms or more and below --check-timeout (%s); it is %s", f.CheckTimeout,
			f.DegradedAfter)
	}
	return nil
}

// maxQueue is the upper limit of --queue. A longer queue could not be served in time.
const maxQueue = 100_000

// lanes returns the number of lanes. The default is one for each core: a batch begins
// beside others only when enough checks wait. So few callers share large batches, and
// many callers keep all cores busy while batches wait for their commits. At most a
// quarter of the connections are for lanes. Three quarters decide checks, and the rest
// of those is for pieces of larger calls and for held buckets.
func (f serviceFlags) lanes() int {
	if f.Lanes > 0 {
		return f.Lanes
	}
	return max(1, min(runtime.GOMAXPROCS(0), f.MaxConns/4))
}

// heldCalls returns how many calls may wait for buckets that another session holds.
func (f serviceFlags) heldCalls() int { return max(1, min(queue.DefaultHeldCalls, f.MaxConns/4)) }

// batchTimeout returns the deadline of a batch. It is half-way between --lock-wait and
// --check-timeout: the engine must give up a lock before the batch ends, so that it is
// known that nothing was counted, and a check needs the rest of its time for the queue.
func (f serviceFlags) batchTimeout() time.Duration {
	return f.LockWait + (f.CheckTimeout-f.LockWait)/2
}

// connectTimeout returns how long a connection to the database may take to come about: as long as a
// batch. It is never less than the default, however short the checks' time: a connection that comes
// late serves the next check.
func (f serviceFlags) connectTimeout() time.Duration {
	return max(session.DefaultConnectTimeout, f.batchTimeout())
}

// attrs returns the settings for the log, with dsn but not its password.
func (f serviceFlags) attrs(dsn string) []slog.Attr {
	proxies := strings.ReplaceAll(strings.Trim(fmt.Sprint(f.proxies()), "[]"), " ", ",")
	return []slog.Attr{
		slog.String("dsn", session.RedactDSN(dsn)), slog.String("listen", f.Listen),
		slog.Duration("check_timeout", f.CheckTimeout), slog.Duration("lock_wait", f.LockWait),
		slog.Int("max_conns", f.MaxConns), slog.String("coalesce", f.Coalesce),
		slog.Int("lanes", f.lanes()), slog.Int("queue", f.Queue), slog.Duration("batch_timeout", f.batchTimeout()),
		slog.Duration("drain_delay", f.DrainDelay), slog.Duration("shutdown_timeout", f.ShutdownTimeout),
		slog.Bool("access_log", f.AccessLog), slog.String("log_format", f.LogFormat),
		slog.String("log_level", f.LogLevel.String()), slog.String("version", version()),
		slog.String("admin_listen", f.AdminListen), slog.String("grpc_listen", f.GRPCListen),
		slog.String("tls_cert", f.TLSCert), slog.String("tls_client_ca", f.TLSClientCA),
		slog.Any("allowed_hosts", f.AllowedHosts), slog.Int("max_connections", f.MaxConnections),
		slog.Int("max_connections_per_peer", f.MaxConnectionsPerPeer), slog.Int64("max_body_bytes", f.MaxBodyBytes),
		slog.Bool("require_auth", f.RequireAuth), slog.Bool("insecure_no_auth", f.InsecureNoAuth),
		slog.String("trusted_proxies", proxies), slog.Bool("proxy_protocol", f.ProxyProtocol),
		slog.String("metrics", f.Metrics), slog.Duration("degraded_after", f.DegradedAfter),
		slog.String("state_dir", f.StateDir),
		slog.String("key_hmac_file", f.KeyHMACFile), slog.String("gates", f.Gates), slog.Any("address_db", f.AddressDB),
		slog.String("retention", f.Retention),
		slog.Any("webhook_hosts", f.WebhookHosts), slog.String("console", f.Console),
		slog.Int64("console_zone", f.ConsoleZone), slog.String("console_key_file", f.ConsoleKeyFile),
	}
}

// options returns the settings for the daemon, without the DSN, the keys, the log, metrics and traces.
func (f serviceFlags) options() server.Options {
	sender := delivery.New(delivery.Options{Agent: "velocityd/" + version(), Allowed: f.WebhookHosts})
	o := server.Options{
		Database: session.Options{MaxConns: f.MaxConns, LockWait: f.LockWait, ConnectTimeout: f.connectTimeout()},
		HTTP:     handlers.Options{AccessLog: f.AccessLog, AllowedHosts: f.hosts(), MaxBodyBytes: f.MaxBodyBytes},
		Connections: wire.Options{
			MaxConnections: f.MaxConnections, MaxConnectionsPerPeer: f.MaxConnectionsPerPeer, AccessLog: f.AccessLog,
		},
		CheckTimeout: f.CheckTimeout, DegradedAfter: f.DegradedAfter, DrainDelay: f.DrainDelay,
		ShutdownTimeout: f.ShutdownTimeout,
		StateDir:        f.StateDir, KeyFolder: f.KeyHMACFile, RequireAuth: f.RequireAuth, InsecureNoAuth: f.InsecureNoAuth,
		Retention: f.Retention == "on", SendEvent: sender.Send,
	}
	if o.Retention { // otherwise other instances call webhooks, by their own settings
		o.HTTP.Admits = sender.Admits
	}
	if f.Coalesce == "on" {
		o.Coalescer = &queue.CoalescerOptions{
			Lanes: f.lanes(), HeldCalls: f.heldCalls(), Queue: f.Queue,
			Timeout: f.batchTimeout(),
		}
	}
	o.HTTP.Auth.TrustedProxies = f.proxies()
	if f.ProxyProtocol {
		o.Connections.Proxies = f.proxies()
	}
	return o
}
