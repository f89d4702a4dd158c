package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/doctor"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/service"
)

// doctorTimeout bounds everything that doctor asks the database.
const doctorTimeout = 20 * time.Second

// errFaults makes run end with exitError. The faults have been printed.
var errFaults = errors.New("faults")

type doctorCmd struct {
	JSON bool `name:"json" env:"VELOCITY_JSON" help:"Print the findings as one JSON object."`

	ask.DatabaseFlags `embed:""`
	ask.KeyFlags      `embed:""`
}

func (doctorCmd) Help() string {
	return `Connects as the service does, with the service's own DSN, and says in sentences what it finds: whether checks
can be decided, the schema and the texts of procedures, the account's rights, the server's settings, its clock,
partitions, tables that grow, the indexes that decisions use, and the settings of zones. It changes nothing and
records no attempt.

Each finding has a level. ok: as it should be. note: worth knowing. warning: works, and should be changed. fault:
checks cannot be decided or their limits do not hold. Behind a finding that is not ok stands what to do.

Exit code 0 means no faults, 1 faults.

Example:

  VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd' velocityd doctor`
}

// Run prints the findings.
func (c *doctorCmd) Run(ctx context.Context, p *shell.Process) error {
	keys, err := c.Keyring()
	if err != nil {
		return err
	}
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	report, err := doctor.Examine(ctx, session.Options{DSN: dsn, Engine: c.Engine, MaxConns: session.LeastMaxConns},
		keys.Keys())
	if err != nil {
		return err
	}
	answer := api.NewDiagnosis(report, time.Now())
	if c.JSON {
		out := json.NewEncoder(p.Stdout)
		out.SetEscapeHTML(false)
		err = out.Encode(struct {
			Database string              `json:"database"`
			Faults   int                 `json:"faults"`
			Warnings int                 `json:"warnings"`
			Findings []service.Diagnosis `json:"findings"`
		}{session.RedactDSN(dsn), answer.Faults, answer.Warnings, answer.Findings})
	} else {
		err = printDiagnoses(p.Stdout, session.RedactDSN(dsn), answer)
	}
	if err == nil && answer.Faults > 0 {
		return errFaults
	}
	return err
}

func printDiagnoses(w io.Writer, database string, found api.Diagnosis) error {
	fmt.Fprintf(w, "%s\n\n", database)
	notes := 0
	for _, one := range found.Findings {
		fmt.Fprintf(w, "%-7s  %s: %s\n", one.Level, one.About, one.Is)
		if one.Do != "" {
			fmt.Fprintf(w, "%-7s  -> %s\n", "", one.Do)
		}
		if one.Level == doctor.Note {
			notes++
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %s\n", shell.Counted(found.Faults, "fault"),
		shell.Counted(found.Warnings, "warning"),
		shell.Counted(notes, "note"))
	return err
}
