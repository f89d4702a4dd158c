package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/crowdsec"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/trusted"
)

type syncCmd struct {
	Crowdsec syncCrowdsecCmd `cmd:"" help:"Keep the bans of a CrowdSec as overrides."`
}

type syncCrowdsecCmd struct {
	configFlags      `embed:""`
	LAPI             string `name:"lapi" env:"VELOCITY_LAPI" placeholder:"URL" help:"CrowdSec's local API, such as http://127.0.0.1:8081."`
	LAPIKeyFile      string `name:"lapi-key-file" env:"VELOCITY_LAPI_KEY_FILE" placeholder:"FILE" help:"File that holds the key of a bouncer, as 'cscli bouncers add' prints it."`
	LAPICA           string `name:"lapi-ca" env:"VELOCITY_LAPI_CA" placeholder:"FILE" help:"With --lapi https://...: certificates, in PEM, of those who may sign CrowdSec's. Left out: those that this machine trusts."`
	zonesFlags       `embed:""`
	ask.ServiceFlags `embed:""`
	Interval         time.Duration `env:"VELOCITY_INTERVAL" default:"10s" placeholder:"DURATION" help:"Time between two questions to CrowdSec."`
	Once             bool          `env:"VELOCITY_ONCE" help:"Take all that is there now, and end."`
	logFlags         `embed:""`
}

// Help is the longer explanation of the command.
func (syncCrowdsecCmd) Help() string {
	return `Asks CrowdSec for its bans, all at first and then the changes, and keeps an override deny for each address (scope Ip), network (Range) and, with --user-zone, user (Username) until the ban ends. A ban that CrowdSec ends early loses its override. Other decisions, such as captcha, are left alone.

The reasons of these overrides begin with "crowdsec: ". An override that somebody else has made or changed stays as it is. One sync may keep a zone.

The token needs the scopes peek and overrides. After a failure the log tells, and the next question asks for everything. docs/doors/crowdsec.md leads through it.

Example:

  velocityd sync crowdsec --lapi http://127.0.0.1:8081 --lapi-key-file /etc/velocityd/crowdsec.key --address-zone 2 --url http://127.0.0.1:8080`
}

// Run keeps the overrides until ctx ends.
func (c *syncCrowdsecCmd) Run(ctx context.Context, p *shell.Process) error {
	return c.file.explain(c.run(ctx, p))
}

func (c *syncCrowdsecCmd) run(ctx context.Context, p *shell.Process) error {
	lapi, err := c.lapi()
	if err != nil {
		return err
	}
	remote, err := c.Client()
	if err != nil {
		return err
	}
	defer remote.Close()
	logger := newLogger(p, c.logFlags)
	sync := crowdsec.New(lapi, remote, crowdsec.Zones{Addresses: c.AddressZone, Users: c.UserZone})
	for {
		counts, err := sync.Round(ctx)
		if counts != (crowdsec.Counts{}) || c.Once && err == nil {
			logger.LogAttrs(ctx, slog.LevelInfo, "bans of CrowdSec", slog.Any("overrides", counts))
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case c.Once || errors.Is(err, service.ErrInvalid):
			return err
		case err != nil:
			logger.LogAttrs(ctx, slog.LevelError, "bans of CrowdSec are not up to date", slog.String("error", explainRemote(err).Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Interval):
		}
	}
}

// lapi returns CrowdSec's local API. Its errors are usageErrors.
func (c *syncCrowdsecCmd) lapi() (crowdsec.LAPI, error) {
	if err := c.validate(); err != nil {
		return crowdsec.LAPI{}, err
	}
	key, err := trusted.ReadSecret(c.LAPIKeyFile, trusted.ShortLimit)
	if err != nil {
		return crowdsec.LAPI{}, shell.Usagef("--lapi-key-file: %w", err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: time.Minute}
	if c.LAPICA != "" {
		roots, err := ask.ReadRoots(c.LAPICA)
		if err != nil {
			return crowdsec.LAPI{}, shell.Usagef("--lapi-ca: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	// A redirect is not followed: the key is for this address.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return crowdsec.LAPI{
		URL: strings.TrimRight(c.LAPI, "/"), Key: strings.TrimSpace(string(key)), HTTP: &http.Client{Transport: transport, CheckRedirect: refuse},
	}, nil
}

// validate returns a usageError for settings that can not work together.
func (c *syncCrowdsecCmd) validate() error {
	parsed, err := url.Parse(c.LAPI)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return shell.Usagef("--lapi must be the address of CrowdSec's local API, such as http://127.0.0.1:8081")
	case c.LAPIKeyFile == "":
		return shell.Usagef("--lapi-key-file must name the file of a bouncer's key ('cscli bouncers add velocityd -o raw' prints one)")
	case c.URL == "":
		return shell.Usagef("--url (VELOCITY_URL) must name the service to ask, such as http://127.0.0.1:8080")
	case c.Interval < time.Second:
		return shell.Usagef("--interval must be at least 1s")
	}
	return c.zonesFlags.validate()
}
