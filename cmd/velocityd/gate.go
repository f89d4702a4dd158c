package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/handlers/gate"
	"velocityd/internal/files"
)

// gateCmd groups the commands on files of gates.
type gateCmd struct {
	Lint gateLintCmd `cmd:"" help:"Find faults in a file of gates, and settings that are probably not meant."`
	Try  gateTryCmd  `cmd:"" help:"Show what a gate asks for a request, without asking it."`
}

func (gateCmd) Help() string {
	return `Gateways such as nginx, Caddy and FreeRADIUS ask a service at /gate/NAME, and act on the status of the
answer. The file of --gates says for each name where in a request the keys stand, and which buckets the descriptors of
Envoy's Rate Limit Service name. docs/gates.md has its form.

Example:

  velocityd gate lint gates.yaml`
}

// readGates reads a file of gates. The error of a file that cannot be read names it, and that of a wrong text does not.
func readGates(path string) (gate.File, error) {
	text, err := files.Read(path, files.LongLimit)
	if err != nil {
		return gate.File{}, err
	}
	return gate.Parse(text)
}

type gateLintCmd struct {
	File      string `arg:"" help:"File of gates."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the findings as JSON."`
	ask.Flags `embed:""`
}

func (gateLintCmd) Help() string {
	return `Prints a line for each fault of the file, with the line where it is, and for each setting that is allowed but
probably not meant: an attempt id that end users can choose, a bucket that is there twice, a gate whose buckets are
all optional, a rule of a domain behind one that fits the same. If a database or a service is named, zones that do not
exist are found, too. A service does not take a file with a fault; the gates before stay in force.

Exit code 0 means no findings, 4 findings.

Example:

  velocityd gate lint /etc/velocityd/gates.yaml`
}

// Run prints the findings about the file.
func (c *gateLintCmd) Run(ctx context.Context, p *shell.Process) error {
	file, err := readGates(c.File)
	findings, isFaulty := faultsIn(err)
	if err != nil && !isFaulty {
		return err
	}
	if !isFaulty {
		zones, err := c.zones(ctx)
		if err != nil {
			return err
		}
		for _, text := range file.Findings(zones) {
			findings = append(findings, gateFinding{Text: text})
		}
	}
	if err := c.print(p.Stdout, file, findings); err != nil {
		return err
	}
	if len(findings) > 0 {
		return shell.ErrFindings
	}
	return nil
}

// gateFinding is a finding about a file, in JSON, too.
type gateFinding struct {
	Line int    `json:"line,omitempty"` // of a fault
	Text string `json:"text"`
}

func (c *gateLintCmd) print(w io.Writer, file gate.File, findings []gateFinding) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(struct {
			Gates    int           `json:"gates"`
			Domains  int           `json:"domains"`
			Findings []gateFinding `json:"findings"`
		}{len(file.Gates), len(file.Domains), append([]gateFinding{}, findings...)})
	}
	for _, f := range findings {
		if f.Line > 0 {
			fmt.Fprintf(w, "line %d: ", f.Line)
		}
		fmt.Fprintln(w, f.Text)
	}
	if len(findings) == 0 {
		fmt.Fprintf(w, "no findings in %s and %s\n", shell.Counted(len(file.Gates), "gate"),
			shell.Counted(len(file.Domains), "domain"))
	}
	return nil
}

// faultsIn returns the faults that an error of reading a file is made of. ok is false if it is of another kind.
func faultsIn(err error) (faults []gateFinding, ok bool) {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		fault := gate.FaultError{}
		if !errors.As(err, &fault) {
			return nil, false
		}
		faults = append(faults, gateFinding{fault.Line, fault.Text})
	}
	return faults, true
}

// zones returns the ids of all zones, or nil if neither a service nor a database is named.
func (c *gateLintCmd) zones(ctx context.Context) ([]int64, error) {
	dsn, err := c.Configured()
	if err != nil || c.URL == "" && dsn == "" {
		return nil, err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	zones, err := store.Zones(ctx)
	ids := make([]int64, 0, len(zones))
	for _, zone := range zones {
		ids = append(ids, zone.ID)
	}
	return ids, err
}

type gateTryCmd struct {
	File    string     `arg:"" help:"File of gates."`
	Name    string     `arg:"" help:"Name of the gate."`
	Method  string     `env:"-" placeholder:"METHOD" help:"Method of the request. Left out: POST with --data, and otherwise GET."`
	Header  []string   `env:"-" sep:"none" placeholder:"'NAME: VALUE'" help:"Header of the request; can be repeated."`
	Data    string     `env:"-" placeholder:"TEXT" help:"Body of the request."`
	URLPath string     `name:"url-path" env:"-" placeholder:"PATH" help:"Path and query of the request. Left out: /gate/NAME."`
	Client  netip.Addr `env:"-" default:"192.0.2.1" placeholder:"ADDRESS" help:"Address that the request comes from."`
}

func (gateTryCmd) Help() string {
	return `Prints the buckets and the attempt id that the gate takes from a request, with the keys as they stand there:
a service brings them into the form of their zones. It then says with which statuses the gate answers. It asks no
service, and nothing is counted. A request that the gate refuses ends with exit code 1 and the text that the gateway
is told.

Example:

  velocityd gate try gates.yaml login --header 'Content-Type: application/x-www-form-urlencoded' \
    --data 'username=alice&password=x'`
}

// Run prints the question of a request.
func (c *gateTryCmd) Run(ctx context.Context, p *shell.Process) error {
	file, err := readGates(c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	named, ok := file.Gate(c.Name)
	if !ok {
		return shell.Usagef("%s has no gate %q: it has %s", c.File, c.Name, strings.Join(file.Names(), ", "))
	}
	request, err := c.request(ctx)
	if err != nil {
		return err
	}
	asked, err := named.Question(request, strings.HasPrefix(request.HTTP.URL.Path, "/gate/"+c.Name+"/"))
	if err != nil {
		return fmt.Errorf("the gate answers 400: %w", err)
	}
	printQuestion(p.Stdout, asked)
	return nil
}

// request returns the request that the flags describe.
func (c *gateTryCmd) request(ctx context.Context) (*gate.Request, error) {
	method, path := c.Method, c.URLPath
	switch {
	case method == "" && c.Data != "":
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	}
	if path == "" {
		path = "/gate/" + c.Name
	}
	request, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(c.Data))
	if err != nil {
		return nil, shell.Usagef("--method or --url-path: %w", err)
	}
	for _, header := range c.Header {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return nil, shell.Usagef("--header takes 'NAME: VALUE'; it is %q", header)
		}
		request.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return &gate.Request{
		HTTP:   request,
		Client: func() (netip.Addr, error) { return c.Client, nil },
		Body:   func() ([]byte, error) { return []byte(c.Data), nil },
	}, nil
}

func printQuestion(w io.Writer, asked gate.Question) {
	for _, b := range asked.Check.Buckets {
		fmt.Fprintf(w, "zone %d, key %q\n", b.ZoneID, b.Key)
	}
	if id := asked.Check.AttemptID; id != "" {
		fmt.Fprintf(w, "attempt %q\n", id)
	}
	fmt.Fprintf(w, "allowed: %d; blocked: %d; not decided: %s\n", asked.Allow, asked.Deny, asked.Busy)
}
