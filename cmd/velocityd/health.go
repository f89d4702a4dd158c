package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
)

const (
	// healthTimeout is below the time that container engines give a check of health.
	healthTimeout = 4 * time.Second
	// longestProblem bounds how much of an answer is read, in bytes.
	longestProblem = 64 << 10
)

// healthCmd is the check of health of a container, which has no shell and no curl.
type healthCmd struct {
	Of  string `arg:"" optional:"" enum:"ready,live" default:"ready" help:"ready: checks can be decided. live: the process runs, and the database does not matter."`
	URL string `name:"url" env:"VELOCITY_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Ask the service at this address."`
	CA  string `name:"ca" env:"VELOCITY_CA" placeholder:"FILE" help:"With --url https://...: certificates, in PEM, of those who may sign the service's. Left out: those that this machine trusts."`
}

func (healthCmd) Help() string {
	return `Asks GET /readyz, or /livez, for containers and scripts. No token is needed. Exit code 0 means yes, and 1 no;
then the error says why. It gives up after 4 s.

Example:

  velocityd health live --url https://velocityd.example.org:8443`
}

// Run asks once.
func (c *healthCmd) Run(ctx context.Context, p *shell.Process) error {
	address, err := url.Parse(c.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return shell.Usagef("--url must be the address of a service, such as http://127.0.0.1:8080")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	if c.CA != "" {
		if transport.TLSClientConfig.RootCAs, err = ask.ReadRoots(c.CA); err != nil {
			return shell.Usagef("--ca (VELOCITY_CA): %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	path := map[string]string{"ready": "readyz", "live": "livez"}[c.Of]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("ask %s whether it is %s: %w", address.Redacted(), c.Of, reasonOf(err))
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		_, err := fmt.Fprintln(p.Stdout, c.Of)
		return err
	}
	return fmt.Errorf("%s is not %s: %s", address.Redacted(), c.Of, problemOf(response))
}

// reasonOf returns the error of net/http without the address, which it repeats with its password.
func reasonOf(err error) error {
	if fault, ok := err.(*url.Error); ok { //nolint:errorlint // net/http's own promise
		return fault.Err
	}
	return err
}

// problemOf returns the reason that an answer gives, or its status.
func problemOf(response *http.Response) string {
	var problem api.Problem
	_ = json.NewDecoder(io.LimitReader(response.Body, longestProblem)).Decode(&problem) // the status says enough
	if problem.Detail == "" {
		return response.Status
	}
	return shell.Printable(problem.Detail)
}
