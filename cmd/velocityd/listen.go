package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"velocityd/handlers"
	"velocityd/handlers/wire"
)

// listenFlags say where and how an instance answers, and what it bears of callers.
type listenFlags struct {
	AdminListen           string   `env:"VELOCITY_ADMIN_LISTEN" placeholder:"ADDR" help:"Second address, for those who look after the service. It answers everything, with metrics and Go's profiles (/debug/pprof/). --listen then answers checks, outcomes and health only."`
	TLSCert               string   `name:"tls-cert" env:"VELOCITY_TLS_CERT" placeholder:"FILE" help:"Certificate in PEM, with its chain. Both addresses then speak TLS 1.2 or newer. A changed file is read again by itself within seconds, and on SIGHUP."`
	TLSKey                string   `name:"tls-key" env:"VELOCITY_TLS_KEY" placeholder:"FILE" help:"Private key of --tls-cert, in PEM."`
	TLSClientCA           string   `name:"tls-client-ca" env:"VELOCITY_TLS_CLIENT_CA" placeholder:"FILE" help:"Certificates, in PEM, of those who sign callers' certificates. Callers are then asked for one, and one that does not verify is refused. Callers may have none."`
	AllowedHosts          []string `env:"VELOCITY_ALLOWED_HOSTS" placeholder:"NAME,..." help:"Names of this service that callers without TLS use in their URLs, separated by commas. Addresses, localhost and names without a dot need no entry; * allows all names."`
	MaxConnections        int      `env:"VELOCITY_MAX_CONNECTIONS" default:"10000" placeholder:"N" help:"Most connections at one address; one of HTTP/2 counts as 16, because as many requests may be under way on it. Requests of further ones are answered with 503 at once."`
	MaxConnectionsPerPeer int      `env:"VELOCITY_MAX_CONNECTIONS_PER_PEER" default:"0" placeholder:"N" help:"The same for one peer: one IPv4 address, or one IPv6 network of 64 bits. 0: no limit, because a proxy in front is one peer."`
	MaxBodyBytes          int64    `env:"VELOCITY_MAX_BODY_BYTES" default:"67108864" placeholder:"BYTES" help:"Most bytes of requests' bodies and of answers in memory. Requests that need more are answered with 503 at once. Those of up to 1 KiB are not counted."`
}

const (
	// mostOfACall is the lower limit of --max-body-bytes: each body that is allowed fits, and its answer.
	mostOfACall = 4 << 20
	// spareFiles are open files besides connections of callers and of the database: the
	// log, the poller, and connections that are refused.
	spareFiles = 192
	// anyHost in --allowed-hosts allows all names.
	anyHost = "*"
)

// validate returns a usageError for settings that cannot work together.
func (f listenFlags) validate() error {
	switch {
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return usagef("--tls-cert and --tls-key belong together; only one of them is set")
	case f.TLSClientCA != "" && !f.usesTLS():
		return usagef("--tls-client-ca needs --tls-cert and --tls-key")
	case f.MaxConnections < 1:
		return usagef("--max-connections must be at least 1; it is %d", f.MaxConnections)
	case f.MaxConnectionsPerPeer < 0:
		return usagef("--max-connections-per-peer must not be negative; it is %d", f.MaxConnectionsPerPeer)
	case f.MaxBodyBytes < mostOfACall:
		return usagef("--max-body-bytes must be at least %d, the most that one call may need; it is %d", mostOfACall, f.MaxBodyBytes)
	}
	for _, host := range f.AllowedHosts {
		if host == "" || strings.ContainsAny(host, ":/ []") || strings.Contains(host, "*") && host != anyHost {
			return usagef("--allowed-hosts takes names without scheme and port, such as velocityd.example.org, or *; it has %q", host)
		}
	}
	if f.AdminListen != "" {
		return validateAddress("--admin-listen", f.AdminListen)
	}
	return nil
}

// validateAddress returns a usageError unless address is a host, which may be empty, and a port.
// Without a port the instance would take any free one, on all addresses.
func validateAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("%s takes a host and a port, such as 127.0.0.1:8080 or [::1]:8080; it is %q", flag, address)
	}
	return nil
}

// hosts returns the names that callers may use, or nil for all.
func (f listenFlags) hosts() []string {
	if slices.Contains(f.AllowedHosts, anyHost) {
		return nil
	}
	return append([]string{}, f.AllowedHosts...)
}

func (f listenFlags) usesTLS() bool { return f.TLSCert != "" }

// attrs returns the settings for the log.
func (f listenFlags) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("admin_listen", f.AdminListen), slog.String("tls_cert", f.TLSCert), slog.String("tls_client_ca", f.TLSClientCA),
		slog.Any("allowed_hosts", f.AllowedHosts), slog.Int("max_connections", f.MaxConnections),
		slog.Int("max_connections_per_peer", f.MaxConnectionsPerPeer), slog.Int64("max_body_bytes", f.MaxBodyBytes),
	}
}

// listeners are where an instance answers.
type listeners struct {
	main         net.Listener
	admin        net.Listener     // nil without --admin-listen
	certificates *certificates    // nil without TLS
	hangups      <-chan os.Signal // ask for the certificate to be loaded again; may be nil
}

// catchHangups makes SIGHUP load the certificate again, in place of ending the process.
// The function that it returns must be called at the end.
func (l *listeners) catchHangups() (end func()) {
	if l.certificates == nil {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	l.hangups = hangups
	return func() { signal.Stop(hangups) }
}

// listen binds the addresses and loads the certificate. The commands call it first, so
// that a wrong address or file is reported at once.
func (f serviceFlags) listen(ctx context.Context) (*listeners, error) {
	l := &listeners{}
	if f.usesTLS() {
		l.certificates = newCertificates(f.listenFlags)
		if err := l.certificates.load(); err != nil {
			return nil, usageError{err: err}
		}
	}
	var err error
	if l.main, err = bind(ctx, f.Listen, "--listen"); err != nil {
		return nil, err
	}
	if f.AdminListen != "" {
		if l.admin, err = bind(ctx, f.AdminListen, "--admin-listen"); err != nil {
			return nil, errors.Join(err, l.main.Close())
		}
	}
	return l, nil
}

// farthest returns the address that other machines reach, if one of them is such, and
// otherwise that of the callers. It decides for both whether callers must prove who they are.
func (l *listeners) farthest() net.Addr {
	return append(l.reachable(), l.main.Addr())[0]
}

// reachable returns the addresses that other machines reach.
func (l *listeners) reachable() []net.Addr {
	addresses := []net.Addr{l.main.Addr()}
	if l.admin != nil {
		addresses = append(addresses, l.admin.Addr())
	}
	return slices.DeleteFunc(addresses, isLoopback)
}

func bind(ctx context.Context, address, flag string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (%s names another address)", err, flag)
	}
	return listener, nil
}

// close closes the addresses that nobody serves on.
func (l *listeners) close() error {
	if l.admin == nil {
		return l.main.Close()
	}
	return errors.Join(l.main.Close(), l.admin.Close())
}

// door is an address and the server that answers on it.
type door struct {
	server   *http.Server
	listener net.Listener
}

// newDoors returns a server for each address. Profiles end with ctx.
func (s *instance) newDoors(ctx context.Context, l *listeners) []door {
	options := s.handlerOptions(ctx, l)
	if l.certificates != nil {
		l.certificates.observe = s.metrics.NoteTLS
		s.metrics.NoteTLS(l.certificates.expires(), nil)
	}
	if l.admin == nil {
		return []door{s.newDoor(handlers.New(options), l.main, l, s.connectionsAt(1))}
	}
	calls, admin := handlers.NewSplit(options)
	most := s.connectionsAt(2)
	return []door{s.newDoor(calls, l.main, l, most), s.newDoor(admin, l.admin, l, most)}
}

// newDoor returns a server of api for one address and at most so many connections.
func (s *instance) newDoor(api http.Handler, listener net.Listener, l *listeners, connections int) door {
	api = s.traced(api)
	server := wire.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			// The caller's next request must go to another instance.
			w.Header().Set("Connection", "close")
		}
		api.ServeHTTP(w, r)
	}), s.flags.CheckTimeout, s.logger)
	if s.metrics != nil {
		follow := server.ConnState
		server.ConnState = func(c net.Conn, state http.ConnState) {
			follow(c, state)
			s.metrics.CountConnection(c, state)
		}
	}
	o := wire.Options{
		MaxConnections: connections, MaxConnectionsPerPeer: s.flags.MaxConnectionsPerPeer,
		Logger: s.logger, AccessLog: s.flags.AccessLog,
	}
	if l.certificates != nil {
		o.TLS = l.certificates.config()
	}
	return door{server: server, listener: wire.NewListener(listener, o)}
}

// connectionsAt returns how many connections each of so many addresses serves. The
// operating system's limit of open files may leave room for fewer than are configured;
// without a lower cap, new callers would then hang.
func (s *instance) connectionsAt(doors int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return s.flags.MaxConnections
	}
	room := (int(min(files.Cur, 1<<30)) - s.flags.MaxConns - spareFiles) / doors
	if room >= s.flags.MaxConnections {
		return s.flags.MaxConnections
	}
	room = max(room, 1)
	s.logger.LogAttrs(context.Background(), slog.LevelWarn, "fewer connections than configured, because of the limit of open files",
		slog.Int("max_connections", room), slog.Uint64("open_files", files.Cur))
	return room
}

// shutDown accepts no more connections on any of the doors, and waits until ctx ends for
// the requests in flight.
func shutDown(ctx context.Context, doors []door, patience time.Duration) error {
	faults := make([]error, len(doors))
	var closing sync.WaitGroup
	for i, d := range doors {
		closing.Go(func() {
			if err := d.server.Shutdown(ctx); err != nil {
				faults[i] = fmt.Errorf("cut off requests that had not ended after %s: %w", patience, err)
				_ = d.server.Close() // so that Serve and the handlers end
			}
		})
	}
	closing.Wait()
	return errors.Join(faults...)
}
