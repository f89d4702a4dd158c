package server

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
	"sync"
	"syscall"
	"time"

	"velocityd/doors/wforce"
	"velocityd/handlers"
	"velocityd/handlers/wire"
)

// spareFiles are open files besides connections of callers and of the database: the
// log, the poller, and connections that are refused.
const spareFiles = 192

// Listeners are where an instance answers.
type Listeners struct {
	main         net.Listener
	admin        net.Listener   // nil without --admin-listen
	grpc         net.Listener   // for Envoy; nil without --grpc-listen
	certificates *Certificates  // nil without TLS
	hangups      chan os.Signal // ask for the certificate to be loaded again; nil without TLS
}

// Listen binds the address for callers and, unless it is empty, the one for administration.
// certificates is nil without TLS. With TLS, SIGHUP loads them again from now on, in place of
// ending the process.
func Listen(ctx context.Context, address, admin string, certificates *Certificates) (*Listeners, error) {
	l := &Listeners{certificates: certificates}
	var err error
	if l.main, err = bind(ctx, address, "--listen"); err != nil {
		return nil, err
	}
	if admin != "" {
		if l.admin, err = bind(ctx, admin, "--admin-listen"); err != nil {
			return nil, errors.Join(err, l.main.Close())
		}
	}
	if certificates != nil {
		l.hangups = make(chan os.Signal, 1)
		signal.Notify(l.hangups, syscall.SIGHUP)
	}
	return l, nil
}

// AddGRPC binds the address for Envoy.
func (l *Listeners) AddGRPC(ctx context.Context, address string) (err error) {
	l.grpc, err = bind(ctx, address, "--grpc-listen")
	return err
}

// Addr returns the address for callers.
func (l *Listeners) Addr() net.Addr { return l.main.Addr() }

// AdminAddr returns the address for administration, which may be that for callers.
func (l *Listeners) AdminAddr() net.Addr {
	if l.admin == nil {
		return l.main.Addr()
	}
	return l.admin.Addr()
}

// ExposedAddr returns the address that other machines reach, if one of them is such, and
// otherwise that of the callers. It decides for both whether callers must prove their identity.
func (l *Listeners) ExposedAddr() net.Addr {
	return append(l.reachable(), l.main.Addr())[0]
}

// reachable returns the addresses that other machines reach.
func (l *Listeners) reachable() []net.Addr {
	var addresses []net.Addr
	for _, one := range l.all() {
		addresses = append(addresses, one.Addr())
	}
	return slices.DeleteFunc(addresses, IsLoopback)
}

func bind(ctx context.Context, address, flag string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (%s names another address)", err, flag)
	}
	return listener, nil
}

// Close closes the addresses on which no server answers.
func (l *Listeners) Close() error {
	signal.Stop(l.hangups)
	var err error
	for _, one := range l.all() {
		err = errors.Join(err, one.Close())
	}
	return err
}

// all returns the listeners that there are, the one for callers first.
func (l *Listeners) all() []net.Listener {
	return slices.DeleteFunc([]net.Listener{l.main, l.admin, l.grpc}, func(one net.Listener) bool { return one == nil })
}

// server is an http.Server, or that of gRPC.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// boundServer is an address and the server that answers on it.
type boundServer struct {
	server   server
	listener net.Listener
}

// newServers returns a server for each address. Profiles end with ctx.
func (s *Instance) newServers(ctx context.Context, l *Listeners) ([]boundServer, error) {
	options := s.handlerOptions(ctx, l)
	if l.certificates != nil {
		l.certificates.observe = s.metrics.NoteTLS
		s.metrics.NoteTLS(l.certificates.expires(), nil)
	}
	most := ConnectionsWithin(s.logger, s.options.Connections.MaxConnections, len(l.all()), s.options.Database.MaxConns)
	servers := s.grpcServers(ctx, options, l, most)
	if l.admin == nil {
		whole := handlers.New(options)
		s.mountWforce(whole)
		return append(servers, s.newServer(whole, l.main, l, most)), s.mountConsole(whole)
	}
	calls, admin := handlers.NewSplit(options)
	s.mountWforce(calls)
	s.mountWforce(admin)
	return append(servers, s.newServer(calls, l.main, l, most), s.newServer(admin, l.admin, l, most)),
		s.mountConsole(admin)
}

// mountWforce has api answer mail servers, too.
func (s *Instance) mountWforce(api *handlers.API) {
	api.Mount(wforce.Path, wforce.New(wforce.Options{API: api, Attempts: WithPseudonyms(s.store, s.keys)}))
}

// newServer returns a server of api for one address and at most so many connections.
func (s *Instance) newServer(api http.Handler, listener net.Listener, l *Listeners, connections int) boundServer {
	api = s.traced(api)
	server := wire.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			// The caller's next request must go to another instance.
			w.Header().Set("Connection", "close")
		}
		api.ServeHTTP(w, r)
	}), s.options.CheckTimeout, s.logger)
	if s.metrics != nil {
		follow := server.ConnState
		server.ConnState = func(c net.Conn, state http.ConnState) {
			follow(c, state)
			s.metrics.CountConnection(c, state)
		}
	}
	o := s.options.Connections
	o.MaxConnections, o.Logger = connections, s.logger
	if listener == l.admin {
		o.Proxies = nil // it is for administrators, and not for proxies
	}
	if l.certificates != nil {
		o.TLS = l.certificates.Config()
	}
	return boundServer{server: server, listener: wire.NewListener(listener, o)}
}

// ConnectionsWithin returns how many connections each of so many addresses serves. The operating system's limit of open
// files may leave room for fewer than most beside the other connections of the process; without a lower cap, new
// callers would then hang.
func ConnectionsWithin(logger *slog.Logger, most, addresses, others int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	room := (int(min(files.Cur, 1<<30)) - others - spareFiles) / addresses
	if room >= most {
		return most
	}
	room = max(room, 1)
	logger.LogAttrs(context.Background(), slog.LevelWarn,
		"fewer connections than configured, because of the limit of open files",
		slog.Int("max_connections", room), slog.Uint64("open_files", files.Cur))
	return room
}

// shutDown accepts no more connections on any of the servers, and waits until ctx ends for
// the requests in flight.
func shutDown(ctx context.Context, servers []boundServer, patience time.Duration) error {
	faults := make([]error, len(servers))
	var closing sync.WaitGroup
	for i, d := range servers {
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
