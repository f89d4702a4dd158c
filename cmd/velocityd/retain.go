package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/retention"
	"velocityd/db/session"
)

type retainCmd struct {
	DryRun bool `name:"dry-run" env:"-" help:"Only say what would leave now."`

	ask.DatabaseFlags `embed:""`
}

func (retainCmd) Help() string {
	return `Removes the rows that the policy (table retention_policy) no longer keeps, makes partitions ahead, and does
the other recurring work of one instance among all, until nothing is left to do. It is for cron, where no
instance does it by itself (serve --retention off). It takes the service's DSN.

It prints one line for each run of a task. A long task has several runs of up to 20 seconds, between which the work
can be interrupted without loss. If an instance or another such command is at work, it leaves the work to that.

Exit code 0 means that all was done, or is left to another one at work, 1 that a task failed. The others are done all
the same.

Example:

  7 * * * *  velocityd retain --dsn-file /etc/velocityd/dsn`
}

// Run runs all tasks to their end.
func (c *retainCmd) Run(ctx context.Context, p *shell.Process) error {
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	store, err := ask.OpenDatabase(ctx, session.Options{DSN: dsn, Engine: c.Engine, MaxConns: session.LeastMaxConns})
	if err != nil {
		return err
	}
	defer store.Close()
	if c.DryRun {
		return expect(ctx, p, store.RetentionRunner())
	}
	failed := map[string]bool{}
	err = store.RetentionRunner().Finish(ctx, func(run retention.Run) {
		line := fmt.Sprintf("%-18s %s in %s", run.Task, shell.Counted(int(run.Removed), "row"),
			run.Took.Round(time.Millisecond))
		switch {
		case run.Err != nil:
			failed[run.Task] = true
			line += ", failed: " + run.Err.Error()
		case run.Backlog:
			line += ", goes on"
		}
		fmt.Fprintln(p.Stdout, line)
	})
	switch {
	case errors.Is(err, retention.ErrElsewhere):
		fmt.Fprintln(p.Stdout, "another runner of retention is at work, and does it")
		return nil
	case err == nil && len(failed) > 0:
		return fmt.Errorf("%s failed: run the command again, or look at retention_task", shell.Counted(len(failed), "task"))
	}
	return err
}

// expect prints which rows would leave.
func expect(ctx context.Context, p *shell.Process, r *retention.Runner) error {
	leaving, err := r.Expect(ctx)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, one := range leaving {
		fmt.Fprintf(&out, "%-18s %s", one.Task, one.What)
		if one.Rows >= 0 {
			fmt.Fprintf(&out, ", about %s", shell.Counted(int(one.Rows), "row"))
		}
		out.WriteString("\n")
	}
	if len(leaving) == 0 {
		out.WriteString("nothing would leave\n")
	}
	_, err = fmt.Fprint(p.Stdout, out.String())
	return err
}
