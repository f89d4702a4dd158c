package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"velocityd/cmd/velocityd/ratelimit"
	"velocityd/cmd/velocityd/shell"
)

// mostConfigBytes is the longest file of another limiter that is read.
const mostConfigBytes = 4 << 20

// importCmd groups the ways from other limiters.
type importCmd struct {
	Ratelimit importRatelimitCmd `cmd:"" help:"Make zones, and rules for Envoy's descriptors, of configurations of envoyproxy/ratelimit."`
}

type importRatelimitCmd struct {
	Config    []string `arg:"" help:"Configurations of envoyproxy/ratelimit, in YAML. Several may have descriptors of one domain."`
	Out       string   `env:"-" default:"." placeholder:"DIR" help:"Folder in which zones.yaml and gates.yaml are made. They must not be there yet."`
	FirstZone int64    `env:"-" default:"1" placeholder:"N" help:"Id of the first zone. The others have the ids after it."`
	Strict    bool     `env:"-" help:"End with exit code 4 if anything was left out."`
}

func (importRatelimitCmd) Help() string {
	return `Each limit becomes a zone, and each list of entries a rule that names its zone. The windows of ratelimit
begin with the clock's minute, hour or day; those of zones slide, so no window of that length ever has more. Settings
without a counterpart are printed to standard error, with their lines.

Nothing is asked or changed but for the two files. 'zone apply' shows how the zones differ from those that are there,
before it writes them.

Example:

  velocityd import ratelimit config/*.yaml
  velocityd zone apply zones.yaml
  velocityd serve --grpc-listen 127.0.0.1:8081 --gates gates.yaml`
}

// Run reads the configurations and writes the files.
func (c *importRatelimitCmd) Run(p *shell.Process) error {
	var sources []ratelimit.Source
	for _, path := range c.Config {
		text, err := shell.ReadFile(path, mostConfigBytes)
		if err != nil {
			return shell.UsageError{Err: err}
		}
		sources = append(sources, ratelimit.Source{Name: path, Text: text})
	}
	all, err := ratelimit.Read(sources, c.FirstZone)
	if err != nil {
		return err
	}
	zones, err := all.ZonesFile()
	if err != nil {
		return err
	}
	gates, err := all.GatesFile()
	if err != nil {
		return err
	}
	zonesFile, gatesFile := filepath.Join(c.Out, "zones.yaml"), filepath.Join(c.Out, "gates.yaml")
	if err := makeFile(zonesFile, zones); err != nil {
		return err
	}
	if err := makeFile(gatesFile, gates); err != nil {
		return errors.Join(err, os.Remove(zonesFile))
	}
	for _, left := range all.Left {
		fmt.Fprintln(p.Stderr, left)
	}
	rules := 0
	for _, list := range all.Domains {
		rules += len(list)
	}
	fmt.Fprintf(p.Stdout, "zones.yaml: %s, %d to %d\n", shell.Counted(len(all.Zones), "zone"), c.FirstZone,
		all.Zones[len(all.Zones)-1].ID)
	fmt.Fprintf(p.Stdout, "gates.yaml: %s of %s\n", shell.Counted(rules, "rule"),
		shell.Counted(len(all.Domains), "domain"))
	if c.Strict && len(all.Left) > 0 {
		return shell.ErrFindings
	}
	return nil
}

// makeFile writes a file that is not there yet.
func makeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it has limits, which are no secret
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is there already, and is not overwritten: remove it, or name another folder by --out", path)
	case err != nil:
		return err
	}
	if _, err = file.Write(text); err != nil {
		err = fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(err, file.Close())
}
