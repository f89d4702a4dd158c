package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"velocityd/client"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/settings"
	"velocityd/cmd/velocityd/shell"
	"velocityd/doors/proxy"
	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/handlers/wire"
	"velocityd/internal/files"
	"velocityd/service"
)

type proxyCmd struct {
	settings.FileFlag `embed:""`
	Listen            string   `env:"VELOCITY_LISTEN" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to answer on; port 0 takes a free one."`
	Upstream          string   `env:"VELOCITY_UPSTREAM" placeholder:"URL" help:"The application, such as http://127.0.0.1:3000."`
	UpstreamCA        string   `name:"upstream-ca" env:"VELOCITY_UPSTREAM_CA" placeholder:"FILE" help:"With --upstream https://...: certificates, in PEM, of those who may sign the application's. Left out: those that this machine trusts."`
	Login             []string `env:"VELOCITY_LOGIN" sep:"," placeholder:"'METHOD PATH'" help:"Where users log in, such as 'POST /login'; several with commas between them. In a path, * is any one part and ** at the end any rest. The method * is any."`
	User              []string `env:"VELOCITY_USER" sep:"," placeholder:"PLACE" help:"Where the user stands in a login: form:FIELD, json:/POINTER, basic, or header:NAME of a proxy in front; several with commas between them."`
	UserOptional      bool     `env:"VELOCITY_USER_OPTIONAL" help:"A login without a user, such as the step for a second factor, counts for its address alone. Otherwise it is refused."`
	loginFlags        `embed:""`
	Success           []string `env:"VELOCITY_SUCCESS" sep:"," placeholder:"RULE" help:"Answers of a login that has succeeded, such as 'status:303 !location:/login'. Conditions of one rule have spaces between them, rules commas."`
	Failure           []string `env:"VELOCITY_FAILURE" sep:"," placeholder:"RULE" help:"Answers of a login that has failed. Of an answer that fits no rule nothing is reported."`
	ask.ServiceFlags  `embed:""`
	AskTimeout        time.Duration `env:"VELOCITY_ASK_TIMEOUT" default:"1s" placeholder:"DURATION" help:"How long the service may take to decide a login, with all tries."`
	AnswerTimeout     time.Duration `env:"VELOCITY_ANSWER_TIMEOUT" default:"1m" placeholder:"DURATION" help:"How long the application may take to answer a login. Nothing bounds the whole of other requests."`
	MaxLoginBytes     int64         `env:"VELOCITY_MAX_LOGIN_BYTES" default:"65536" placeholder:"BYTES" help:"Longest body of a login. A longer one is answered with 413."`
	BlockedHTML       string        `name:"blocked-html" env:"VELOCITY_BLOCKED_HTML" placeholder:"FILE" help:"Page for blocked users, with {{.RetryAfter}}, the seconds to wait, and {{.Status}}: 429, or 503 where nobody can log in."`
	BlockedJSON       string        `name:"blocked-json" env:"VELOCITY_BLOCKED_JSON" placeholder:"FILE" help:"The same as JSON, for programs and for scripts of pages."`
	MaxRequests       int           `env:"VELOCITY_MAX_REQUESTS" default:"1024" placeholder:"N" help:"Most requests other than logins at once, websockets included, and with them connections to the application; of one client half as many. Further ones get 503. Of connections of clients there may be 16 times as many; one of HTTP/2 counts as 16."`
	TrustedProxies    []networkFlag `name:"trusted-proxies" env:"VELOCITY_TRUSTED_PROXIES" sep:"," placeholder:"NETWORKS" help:"Addresses and networks of the proxies in front that are believed from which address a request comes (X-Forwarded-For, Forwarded), separated by commas. Default: none."`
	TLSCert           string        `name:"tls-cert" env:"VELOCITY_TLS_CERT" placeholder:"FILE" help:"Certificate in PEM, with its chain. The proxy then speaks TLS 1.2 or newer, and HTTP/2. A changed file is read again by itself within seconds, and on SIGHUP."`
	TLSKey            string        `name:"tls-key" env:"VELOCITY_TLS_KEY" placeholder:"FILE" help:"Private key of --tls-cert, in PEM."`
	DrainDelay        time.Duration `env:"VELOCITY_DRAIN_DELAY" placeholder:"DURATION" default:"0s" help:"Time between answering 'not ready' and accepting no more connections, for load balancers to notice."`
	ShutdownTimeout   time.Duration `env:"VELOCITY_SHUTDOWN_TIMEOUT" placeholder:"DURATION" default:"15s" help:"How long requests in flight may take to end when the proxy stops."`
	AccessLog         bool          `env:"VELOCITY_ACCESS_LOG" help:"Log one line for each request, without its path. Faults are logged in any case, the same one at most once a second."`
	logFlags          `embed:""`
}

func (proxyCmd) Help() string {
	return `Asks the service at --url before a login reaches the application, and reports how it ended by the
application's answer. A blocked user gets 429 with Retry-After. All other requests pass as they are: streams,
websockets, uploads. docs/doors/proxy.md has recipes for Keycloak, Kratos, Authelia and Nextcloud.

A path is matched in every spelling that some application may take for it: //login, /Login, /login/, /%6Cogin,
/login;x=1, /login.json. A login whose user cannot be read for certain is refused: twice there, in two spellings, in a
coding or a charset that programs read differently.

Conditions of rules: status:303 or status:2xx; location:/PATH, how the address begins to which a browser goes, without
its host; cookie:NAME, a browser has it then; body:TEXT and json:/POINTER=VALUE, in the first 64 KiB of the body. ! in
front negates one. A space or a comma in a value is written %20 or %2C. Where a rule of failure fits, the login has
failed. In a zone that counts failures, an attempt without a report counts.

The token needs the scopes check and report. While the service does not decide, logins pass with --on-error allow, and
get 503 otherwise. The log tells.

GET /velocityd/livez and /velocityd/readyz are the proxy's: 'velocityd health --url http://127.0.0.1:8000/velocityd'
asks them. SIGTERM or Ctrl-C: it is not ready, then it accepts no new connections, and ends when all requests are
answered; a websocket is cut off. Settings may stand in a file (--config), as for serve.

Example:

  velocityd proxy --upstream http://127.0.0.1:3000 --login 'POST /login' --user form:username --user-zone 1 --address-zone 2 --success status:303 --failure status:401 --url http://127.0.0.1:8080`
}

// Run serves until ctx ends.
func (c *proxyCmd) Run(ctx context.Context, p *shell.Process) error {
	return c.Explain(c.run(ctx, p))
}

func (c *proxyCmd) run(ctx context.Context, p *shell.Process) error {
	ignoreBrokenPipe()
	options, err := c.options()
	if err != nil {
		return err
	}
	logger := newLogger(p, c.logFlags)
	remote, err := c.Client(client.WithCoalescing(), client.WithTimeout(c.AskTimeout),
		client.WithOnError(c.policy(logger)))
	if err != nil {
		return err
	}
	defer remote.Close()
	options.Service, options.Logger = remote, logger
	bounds := c.bounds(logger)
	if bounds.TLS, err = c.tls(ctx, logger); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("%w (--listen names another address)", err)
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("address", listener.Addr().String()),
		slog.String("upstream", c.Upstream),
		slog.String("version", version()))
	if err := notifyReady(ctx, p.LookupEnv); err != nil {
		logger.LogAttrs(ctx, slog.LevelWarn, "systemd was not told that the proxy listens", slog.String("error", err.Error()))
	}
	c.tryService(ctx, remote, logger)
	return proxy.New(options).Serve(ctx, listener, bounds,
		proxy.Stop{DrainDelay: c.DrainDelay, Timeout: c.ShutdownTimeout})
}

// bounds are those of clients' connections. Behind a proxy in front, all of them come from one peer.
func (c *proxyCmd) bounds(logger *slog.Logger) wire.Options {
	most := server.ConnectionsWithin(logger, wire.HTTP2Streams*c.MaxRequests, 1, c.MaxRequests+proxy.MostLogins)
	bounds := wire.Options{MaxConnections: most, Logger: logger, AccessLog: c.AccessLog}
	if len(c.TrustedProxies) == 0 {
		bounds.MaxConnectionsPerPeer = max(wire.HTTP2Streams, most/2)
	}
	return bounds
}

// policy decides logins that the service has not decided, and logs why it has not.
func (c *proxyCmd) policy(logger *slog.Logger) client.OnError {
	faults := &admission.FaultLog{Logger: logger}
	return func(ctx context.Context, _ service.Check, err error) bool {
		faults.Report(ctx, admission.Fault{Kind: admission.Failed, Code: "not_decided", Text: err.Error()}, nil,
			func() []slog.Attr {
				return []slog.Attr{slog.String("on_error", c.OnError)}
			})
		return c.allows()
	}
}

// tryService asks the service for the proxy's own name, so that a wrong address or token is in the log before the first
// user comes.
func (c *proxyCmd) tryService(ctx context.Context, remote *client.Client, logger *slog.Logger) {
	go func() {
		ctx, cancel := context.WithTimeout(ctx, client.DefaultTimeout)
		defer cancel()
		if _, err := remote.Identity(ctx, ""); err != nil && ctx.Err() == nil {
			logger.LogAttrs(ctx, slog.LevelError, "the service does not answer the proxy", slog.String("on_error", c.OnError),
				slog.String("error", explainRemote(err).Error()))
		}
	}()
}

// tls returns the settings of TLS, or nil without it. It follows the files until ctx ends.
func (c *proxyCmd) tls(ctx context.Context, logger *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // there is no TLS
	}
	certificates, err := server.LoadCertificates(server.TLSFiles{Cert: c.TLSCert, Key: c.TLSKey})
	if err != nil {
		return nil, shell.UsageError{Err: err}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go certificates.Watch(ctx, logger, hangups)
	return certificates.Config(), nil
}

// options returns the settings of the proxy, without service and log, or a shell.UsageError.
func (c *proxyCmd) options() (o proxy.Options, err error) {
	if err := c.validate(); err != nil {
		return o, err
	}
	o = proxy.Options{
		UserZone: c.UserZone, AddressZone: c.AddressZone, AnyUser: c.UserOptional, Proxies: networks(c.TrustedProxies),
		MaxBody: c.MaxLoginBytes, MaxRequests: c.MaxRequests, CheckTimeout: c.AskTimeout, AnswerTimeout: c.AnswerTimeout,
		AccessLog: c.AccessLog,
	}
	if o.Upstream, err = url.Parse(c.Upstream); err != nil || o.Upstream.Host == "" ||
		strings.TrimRight(c.Upstream, "/") !=
			o.Upstream.Scheme+"://"+o.Upstream.Host || o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https" {
		return o, shell.Usagef("--upstream must be scheme and host of the application, such as http://127.0.0.1:3000")
	}
	if c.UpstreamCA != "" {
		if o.Roots, err = ask.ReadRoots(c.UpstreamCA); err != nil {
			return o, shell.Usagef("--upstream-ca (VELOCITY_UPSTREAM_CA): %w", err)
		}
	}
	if o.Logins, err = each("--login", c.Login, proxy.ParseLogin); err != nil {
		return o, err
	}
	if o.Users, err = each("--user", c.User, placeOf); err != nil {
		return o, err
	}
	if o.Rules.Success, err = each("--success", c.Success, proxy.ParseRule); err != nil {
		return o, err
	}
	if o.Rules.Failure, err = each("--failure", c.Failure, proxy.ParseRule); err != nil {
		return o, err
	}
	o.Pages, err = c.pages()
	return o, err
}

// each reads the entries of a flag.
func each[T any](flag string, texts []string, read func(string) (T, error)) ([]T, error) {
	var list []T
	for _, text := range texts {
		entry, err := read(strings.TrimSpace(text))
		if err != nil {
			return nil, shell.Usagef("%s: %w", flag, err)
		}
		list = append(list, entry)
	}
	return list, nil
}

// placeOf reads a place of a user, such as form:username.
func placeOf(text string) (gate.Source, error) {
	kind, name, _ := strings.Cut(text, ":")
	switch gate.Kind(kind) {
	case gate.Basic:
		if name == "" {
			return gate.NewSource(gate.Basic, "user")
		}
	case gate.Form, gate.JSON, gate.Header:
		if name != "" {
			return gate.NewSource(gate.Kind(kind), name)
		}
	case gate.Query, gate.Client:
	}
	return gate.Source{}, fmt.Errorf("a place is form:FIELD, json:/POINTER, basic or header:NAME; it is %q", text)
}

// pages reads the pages of the operator.
func (c *proxyCmd) pages() (proxy.Pages, error) {
	var texts [2]string
	for i, file := range []string{c.BlockedHTML, c.BlockedJSON} {
		if file == "" {
			continue
		}
		text, err := files.Read(file, files.LongLimit)
		if err != nil {
			return proxy.Pages{}, shell.Usagef("--blocked-html, --blocked-json: %w", err)
		}
		texts[i] = string(text)
	}
	pages, err := proxy.ParsePages(texts[0], texts[1])
	if err != nil {
		return proxy.Pages{}, shell.Usagef("--blocked-html, --blocked-json: %w", err)
	}
	return pages, nil
}

// validate returns a shell.UsageError for settings that cannot work together.
func (c *proxyCmd) validate() error {
	const mostLoginBytes = 1 << 20
	zones := c.loginFlags.validate()
	switch {
	case c.URL == "":
		return shell.Usagef("--url (VELOCITY_URL) must name the service to ask, such as http://127.0.0.1:8080")
	case len(c.Login) == 0:
		return shell.Usagef("--login must say where users log in, such as 'POST /login'")
	case zones != nil:
		return zones
	case (c.UserZone != 0) != (len(c.User) > 0):
		return shell.Usagef("--user-zone and --user belong together; only one of them is set")
	case c.UserOptional && c.AddressZone == 0:
		return shell.Usagef("--user-optional needs --address-zone: a login without a user would pass without a limit")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return shell.Usagef("--tls-cert and --tls-key belong together; only one of them is set")
	case c.AskTimeout <= 0 || c.AnswerTimeout <= 0 || c.ShutdownTimeout <= 0 || c.DrainDelay < 0:
		return shell.Usagef(
			"--ask-timeout, --answer-timeout and --shutdown-timeout must be above 0, and --drain-delay not below it")
	case c.MaxRequests < 1:
		return shell.Usagef("--max-requests must be at least 1; it is %d", c.MaxRequests)
	case c.MaxLoginBytes < 1 || c.MaxLoginBytes > mostLoginBytes:
		return shell.Usagef("--max-login-bytes must be 1 to %d; it is %d", mostLoginBytes, c.MaxLoginBytes)
	}
	return validateAddress("--listen", c.Listen)
}
