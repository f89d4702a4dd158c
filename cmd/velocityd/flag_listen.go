package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/handlers"
)

// listenFlags say where and how an instance answers, and how many callers it bears.
type listenFlags struct {
	AdminListen           string   `env:"VELOCITY_ADMIN_LISTEN" placeholder:"ADDR" help:"Second address, for operators of the service. It answers everything, with metrics and Go's profiles (/debug/pprof/). --listen then answers checks, outcomes and health only."`
	GRPCListen            string   `name:"grpc-listen" env:"VELOCITY_GRPC_LISTEN" placeholder:"ADDR" help:"Address for Envoy over gRPC: its Rate Limit Service and external authorization, with health and reflection. One of its connections counts as 64."`
	TLSCert               string   `name:"tls-cert" env:"VELOCITY_TLS_CERT" placeholder:"FILE" help:"Certificate in PEM, with its chain. Both addresses then speak TLS 1.2 or newer. A changed file is read again by itself within seconds, and on SIGHUP."`
	TLSKey                string   `name:"tls-key" env:"VELOCITY_TLS_KEY" placeholder:"FILE" help:"Private key of --tls-cert, in PEM."`
	TLSClientCA           string   `name:"tls-client-ca" env:"VELOCITY_TLS_CLIENT_CA" placeholder:"FILE" help:"Certificates, in PEM, of those who sign callers' certificates. Callers are then asked for one, and one that does not verify is refused. Callers may have none."`
	ProxyProtocol         bool     `env:"VELOCITY_PROXY_PROTOCOL" help:"On connections of --trusted-proxies to --listen, expect the client's address by the PROXY protocol, version 1 or 2, and refuse them without it. Connections of others are served as they are. Those to --admin-listen have none."`
	AllowedHosts          []string `env:"VELOCITY_ALLOWED_HOSTS" placeholder:"NAME,..." help:"Names of this service that callers without TLS use in their URLs, separated by commas. Addresses, localhost and names without a dot need no entry; * allows all names."`
	MaxConnections        int      `env:"VELOCITY_MAX_CONNECTIONS" default:"10000" placeholder:"N" help:"Most connections at one address; one of HTTP/2 counts as 16, because as many requests may be under way on it. Requests of further ones are answered with 503 at once."`
	MaxConnectionsPerPeer int      `env:"VELOCITY_MAX_CONNECTIONS_PER_PEER" default:"0" placeholder:"N" help:"The same for one peer: one IPv4 address, or one IPv6 network of 64 bits. 0: no limit, because a proxy in front is one peer."`
	MaxBodyBytes          int64    `env:"VELOCITY_MAX_BODY_BYTES" default:"67108864" placeholder:"BYTES" help:"Most bytes of requests' bodies and of answers in memory. Requests that need more are answered with 503 at once. Those of up to 1 KiB are not counted."`
}

// anyHost in --allowed-hosts allows all names.
const anyHost = "*"

// validate returns a shell.UsageError for settings that cannot work together.
func (f listenFlags) validate() error {
	switch {
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return shell.Usagef("--tls-cert and --tls-key belong together; only one of them is set")
	case f.TLSClientCA != "" && !f.usesTLS():
		return shell.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	case f.MaxConnections < 1:
		return shell.Usagef("--max-connections must be at least 1; it is %d", f.MaxConnections)
	case f.MaxConnectionsPerPeer < 0:
		return shell.Usagef("--max-connections-per-peer must not be negative; it is %d", f.MaxConnectionsPerPeer)
	case f.MaxBodyBytes < handlers.MaxCallBytes:
		return shell.Usagef("--max-body-bytes must be at least %d, the most that one call may need; it is %d",
			handlers.MaxCallBytes, f.MaxBodyBytes)
	}
	for _, host := range f.AllowedHosts {
		if host == "" || strings.ContainsAny(host, ":/ []") || strings.Contains(host, "*") && host != anyHost {
			return shell.Usagef(
				"--allowed-hosts takes names without scheme and port, such as velocityd.example.org, or *; it has %q", host)
		}
	}
	if f.GRPCListen != "" && !server.HasGRPC {
		return shell.Usagef("--grpc-listen: this program was built without gRPC (the tag no_grpc)")
	}
	if f.GRPCListen != "" {
		if err := validateAddress("--grpc-listen", f.GRPCListen); err != nil {
			return err
		}
	}
	if f.AdminListen != "" {
		return validateAddress("--admin-listen", f.AdminListen)
	}
	return nil
}

// validateAddress returns a shell.UsageError unless address is a host, which may be empty, and a port.
// Without a port the instance would take any free one, on all addresses.
func validateAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return shell.Usagef("%s takes a host and a port, such as 127.0.0.1:8080 or [::1]:8080; it is %q", flag, address)
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

// listen loads the certificate and binds the addresses. The commands call it first, so
// that a wrong address or file is reported at once.
func (f serviceFlags) listen(ctx context.Context) (*server.Listeners, error) {
	var certificates *server.Certificates
	if f.usesTLS() {
		var err error
		certificates, err = server.LoadCertificates(server.TLSFiles{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA})
		if err != nil {
			return nil, shell.UsageError{Err: err}
		}
	}
	listeners, err := server.Listen(ctx, f.Listen, f.AdminListen, certificates)
	if err == nil && f.GRPCListen != "" {
		if err = listeners.AddGRPC(ctx, f.GRPCListen); err != nil {
			return nil, errors.Join(err, listeners.Close())
		}
	}
	return listeners, err
}
