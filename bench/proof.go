package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"velocityd/bench/history"
	"velocityd/db/localdb"
)

const (
	// mostProven is about how many txns of a longer history are proven: the newest.
	mostProven = 20_000_000
	proofLimit = time.Hour
)

// proven is what an audit of a history took.
type proven struct {
	engine, title string
	Txns          int64 `json:"txns"`
	Findings      int   `json:"findings"`
	Unknown       int64 `json:"unknown"`
	Readings      int   `json:"readings"`
	took, cpu     time.Duration
	peak          int64 // bytes of resident memory
}

// proofs is a run of bench proof.
type proofs struct {
	options  pastOptions
	machine  machine
	versions []string
	list     []proven
}

// runProofs fills histories, or opens those that were filled before, and measures the command audit on them.
func runProofs(ctx context.Context, args []string) error {
	o, err := parsePast(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pastLimit)
	defer cancel()
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	found := &proofs{options: o, machine: describe(ctx, s.root, s.dir)}
	s.progress("building velocityd")
	if err := s.build(ctx); err != nil {
		return err
	}
	for _, kind := range o.engines() {
		one := &stage{dir: s.dir, root: s.root, progress: s.progress, programs: s.programs}
		err := one.proveAll(ctx, found, kind)
		one.close()
		if err != nil {
			return err
		}
	}
	if o.report == "" {
		fmt.Print(found.report(time.Now()))
		return nil
	}
	if err := os.WriteFile(o.report, []byte(found.report(time.Now())), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// proveAll measures the audits of all histories of an engine.
func (s *stage) proveAll(ctx context.Context, found *proofs, kind localdb.Engine) error {
	e, err := startEngine(ctx, found.options.data, kind, pastSettings(found.options.pool))
	if err != nil {
		return err
	}
	s.later(e.stop)
	found.versions = append(found.versions, e.name()+" "+e.binary.Version)
	for _, rows := range found.options.rows(kind) {
		p, err := s.openPast(ctx, e, strconv.Itoa(rows), rows, found.options.seed)
		if err != nil {
			return err
		}
		d, err := p.lend(ctx, s)
		if err != nil {
			return err
		}
		one, err := s.prove(ctx, p, d)
		if err = errors.Join(err, p.takeBack(ctx)); err != nil {
			return err
		}
		s.progress("%s: %s txns in %v, %.0f MiB", one.title, grouped(int(one.Txns)), one.took.Round(time.Second), mebibytes(one.peak))
		found.list = append(found.list, one)
	}
	return nil
}

// widen gives the zones limits that the made-up history keeps, since before its begin. A day of users is open at once.
func (d *database) widen(ctx context.Context) error {
	return d.session(ctx, fmt.Sprintf("SET SESSION timestamp = UNIX_TIMESTAMP() - %d", longBefore),
		fmt.Sprintf("UPDATE zone_master SET rate = 100000, `window` = IF(id = %d, %d, %d)", history.ZoneUser, day, hour),
		"SET SESSION timestamp = DEFAULT")
}

// prove runs the audit of a history, or of its newest part.
func (s *stage) prove(ctx context.Context, p *past, d *database) (one proven, err error) {
	if err := d.widen(ctx); err != nil {
		return one, err
	}
	one = proven{engine: p.engine.name(), title: fmt.Sprintf("%s, %s txns", p.engine.name(), grouped(p.plan.Rows))}
	args := []string{"audit", "--json", "--dsn", d.dsn}
	if p.plan.Rows > mostProven {
		span := time.Duration(float64(p.plan.End.Sub(p.plan.Begin())) * mostProven / float64(p.plan.Rows))
		args = append(args, "--since", p.plan.End.Add(-span).Format(time.RFC3339))
	}
	cmd := exec.CommandContext(ctx, s.programs.velocityd, args...)
	began := time.Now()
	text, err := output(ctx, proofLimit, cmd)
	if err != nil {
		return one, err
	}
	one.took, one.cpu = time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		one.peak = usage.Maxrss << 10 // KiB on Linux
	}
	if err := json.Unmarshal(text, &one); err != nil {
		return one, fmt.Errorf("read the summary of the audit: %w", err)
	}
	return one, nil
}

func (p *proofs) report(now time.Time) string {
	var b strings.Builder
	h := p.machine
	fmt.Fprintf(&b, "# The audit of long histories\n\nWritten by `make bench-proof ARGS='%s'` on %s, at commit %s.\n\n", p.options.fills(),
		now.UTC().Format(time.DateOnly), h.commit)
	fmt.Fprintf(&b, "**Hardware:** %d cores of %s, %s; %s, Linux %s. Load average before the run: %s. Engine and audit share these cores.\n\n",
		h.cores, h.cpu, h.memory, h.system, h.kernel, h.load)
	fmt.Fprintf(&b, "**Versions:** %s. A buffer pool has %s.\n\n", strings.Join(p.versions, ", "), p.options.pool)
	fmt.Fprintf(&b, "**How:** the histories are those of [long histories](history.md), with limits that they keep: users have a window of "+
		"a day, addresses and devices one of an hour. Of a history of more than %s txns the newest are proven, and a day before them is read, "+
		"too. `velocityd audit` is a process beside the engine; its memory is the most that it had resident.\n\n", grouped(mostProven))
	b.WriteString("| history | txns read | time | txns a second | processor time of the audit | memory | readings | findings |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, one := range p.list {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.0f MiB | %d | %d |\n", one.title, grouped(int(one.Txns)), one.took.Round(time.Second/10),
			whole(float64(one.Txns)/one.took.Seconds()), one.cpu.Round(time.Second/10), mebibytes(one.peak), one.Readings, one.Findings)
	}
	return b.String()
}
