package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// enoughRows rows make a file's length tell theirs: files grow in large steps.
const enoughRows = 200_000

// write writes a report to a file, or prints it if there is none.
func write(path, text string) error {
	if path == "" {
		fmt.Print(text)
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a document for all users
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (m *measured) report(now time.Time) string {
	var b strings.Builder
	m.stage.writeHead(&b, "Against other limiters", "make bench", m.options.args, now)
	m.writeHow(&b)
	if m.options.beside == "" {
		m.writeComparisons(&b)
	} else {
		m.writeBeside(&b)
	}
	m.writeScenarios(&b)
	m.writeAnswers(&b)
	m.writeDisk(&b)
	m.writeMemory(&b)
	m.writeContenders(&b)
	return b.String()
}

// writeHead writes the beginning of each report. command repeats the run with args.
func (s *stage) writeHead(b *strings.Builder, title, command string, args []string, now time.Time) {
	if len(args) > 0 {
		command += " ARGS='" + strings.Join(args, " ") + "'"
	}
	h := s.machine
	fmt.Fprintf(b, "# %s\n\nWritten by `%s` on %s, at commit %s, in %s.\n\n", title, command,
		now.UTC().Format(time.DateOnly), h.commit,
		now.Sub(s.began).Round(time.Second))
	fmt.Fprintf(b, "**Hardware:** %d cores of %s, %s; %s, Linux %s. A write of 512 bytes and its fsync take %s. "+
		"Load average before the run: %s. Everything runs on these cores: databases, services and callers.\n\n",
		h.cores, h.cpu, h.memory, h.system, h.kernel, duration(h.sync), h.load)
	fmt.Fprintf(b, "**Versions:** %s.\n\n", strings.Join(s.versions, ", "))
}

func (m *measured) writeHow(b *strings.Builder) {
	fmt.Fprintf(b, "**How:** all contenders with SQL share one server of each engine, with the settings of `db/localdb` "+
		"(`sync_binlog=1`, `innodb_flush_log_at_trx_commit=1`, binary log on, on MySQL `innodb_log_writer_threads=OFF`) "+
		"and `%s`. Each is asked for %s s in a closed loop, recording alone at the pace of the service, %d %s, in turn "+
		"with the others and in another order each time; a second of warming up comes first, and the database is let come "+
		"to rest before each. Figures are the median of the turns, with the least and the most in brackets; ratios are "+
		"made within a turn, because the machine's pace changes. Zones are older than their window, as nearly always. The "+
		"load generator is a separate process with a hand-written HTTP client, and with grpc-go for gRPC, 64 callers a "+
		"connection; CPU is seconds of processor time for 1,000 checks, from /proc.\n\n",
		strings.Join(serverSettings(), " "),
		decimal(m.options.seconds), m.options.turns, plural(m.options.turns, "time", "times"))
	for _, a := range m.stage.absent {
		fmt.Fprintf(b, "**Absent:** %s could not be had here (%s), and nothing stands in for it.\n\n", a.name, a.reason)
	}
}

// writeComparisons writes the ratios, with a column for each engine.
func (m *measured) writeComparisons(b *strings.Builder) {
	fmt.Fprintf(b, "## Ratios\n\n|")
	for _, e := range m.stage.engines {
		fmt.Fprintf(b, " | %s", e.name())
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("---|", len(m.stage.engines)))
	for _, c := range m.comparisons() {
		if c.found(m, m.stage.engines[0]).of == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", c.what)
		for _, e := range m.stage.engines {
			fmt.Fprintf(b, " %s |", c.found(m, e).text(decimal))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// writeBeside writes this checkout's figures as multiples of those of the other one.
func (m *measured) writeBeside(b *strings.Builder) {
	fmt.Fprintf(b, "## This checkout beside %s\n\nRatios within a turn: the figure of this checkout by that of the "+
		"other one.\n\n| | | checks/s | p50 | p99 | CPU server | CPU service |\n|---|---|---|---|---|---|---|\n",
		m.options.beside)
	for _, sc := range m.scenarios {
		for _, before := range m.stage.contenders {
			then := m.by(sc.id, before)
			if !before.isBefore || len(then) == 0 {
				continue
			}
			now := m.of(sc.id, before.kind, before.engine)
			fmt.Fprintf(b, "| %s | %s, %s |", sc.id, before.kind, before.engine.name())
			for _, figure := range []func(result) float64{perSecond, medianTime, longTime, serverCost, serviceCost} {
				fmt.Fprintf(b, " %s |", ratio(now, then, figure).text(decimal))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
}

func (m *measured) writeScenarios(b *strings.Builder) {
	for _, sc := range m.scenarios {
		fmt.Fprintf(b, "## %s\n\n", capital(sc.title))
		fmt.Fprintf(b, "| | checks/s | p50 | p99 | CPU server | CPU service | CPU generator |\n")
		fmt.Fprintf(b, "|---|---|---|---|---|---|---|\n")
		for _, c := range m.stage.contenders {
			if list := m.by(sc.id, c); len(list) > 0 {
				writeLine(b, c, list)
			}
		}
		b.WriteString("\n")
		if sc.id == in512 {
			m.writeBatches(b)
		}
	}
}

func writeLine(b *strings.Builder, c *contender, list []result) {
	latency := func(f func(result) float64) string { return duration(time.Duration(spreadOf(values(list, f)).median)) }
	cpu := func(f func(result) float64) string { return fmt.Sprintf("%.3f", spreadOf(values(list, f)).median) }
	server, service, load := "–", "–", "–" // a caller by SQL has no service, and a library no generator
	if c.server != 0 {
		server = cpu(serverCost)
	}
	if c.service != 0 || c.run != nil {
		service = cpu(serviceCost)
	}
	if c.run == nil {
		load = cpu(func(r result) float64 { return r.cost(r.load) })
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.name, spreadOf(values(list, perSecond)).text(whole),
		latency(medianTime), latency(longTime), server, service, load)
}

// writeBatches writes how long the service's batches were at 512 callers.
func (m *measured) writeBatches(b *strings.Builder) {
	for _, c := range m.stage.of(kindService) {
		if list := m.by(in512, c); len(list) > 0 {
			fmt.Fprintf(b, "%s: %s txns a COMMIT, over %s connections.\n\n", c.name,
				spreadOf(values(list, func(r result) float64 { return float64(r.batch()) })).text(whole),
				spreadOf(values(list, func(r result) float64 { return float64(r.lanes) })).text(whole))
		}
	}
}

func (m *measured) writeAnswers(b *strings.Builder) {
	fmt.Fprintf(b, "## Answers\n\nIn every round the rows written to `zone_txn` were counted and held against the "+
		"answers, and a hot bucket, at its first use, must admit its rate of %d in a day, no more and no less. At the end "+
		"every bucket's txns were searched for more than its rate within a window.\n\n", hotRate)
	var rightRounds int
	var rightChecks int64
	var rows strings.Builder
	for _, c := range m.stage.contenders {
		var rounds, wrong int
		var checks, retried int64
		first := ""
		for _, r := range m.results {
			if r.contender != c {
				continue
			}
			rounds++
			checks += r.Answers()
			retried += r.Retried
			if len(r.faults) > 0 {
				wrong++
				first = cmp.Or(first, r.scenario+": "+r.faults[0])
			}
		}
		var excess int64
		for _, k := range m.kept {
			if k.contender == c {
				excess = k.excess
			}
		}
		if wrong == 0 && retried == 0 && excess == 0 {
			rightRounds, rightChecks = rightRounds+rounds, rightChecks+checks
			continue
		}
		fmt.Fprintf(&rows, "| %s | %d | %s | %s | %d | %s | %s |\n", c.name, rounds, grouped(int(checks)),
			grouped(int(retried)), wrong,
			grouped(int(excess)), cmp.Or(first, "nothing"))
	}
	fmt.Fprintf(b, "%s rounds with %s checks were right, without a repeated call.\n\n", grouped(rightRounds),
		grouped(int(rightChecks)))
	if rows.Len() > 0 {
		fmt.Fprintf(b, "| | rounds | checks | calls repeated after a deadlock | wrong rounds | admitted in excess | first "+
			"fault |\n|---|---|---|---|---|---|---|\n%s\n", &rows)
	}
}

func (m *measured) writeDisk(b *strings.Builder) {
	fmt.Fprintf(b, "## Bytes on disk\n\nThe log is the binary log or Redis's append-only file, at 64 callers over "+
		"100,000 buckets; tables are the files of `zone_txn` with its indexes and of `zone_bucket_lock` at the end, "+
		"divided by their rows. Fewer than %s rows tell nothing.\n\n", grouped(enoughRows))
	fmt.Fprintf(b, "| | log, bytes a check | bytes a txn | txns | bytes a bucket | buckets |\n|---|---|---|---|---|---|\n")
	for _, c := range m.stage.contenders {
		if c.logBytes == nil || c.kind == kindRecording {
			continue
		}
		list := m.by(in64, c)
		log := spreadOf(values(list, func(r result) float64 { return float64(r.logBytes) / max(float64(r.Answers()), 1) }))
		tables := "– | – | – | –"
		for _, k := range m.kept {
			if k.contender == c && k.txns >= enoughRows {
				tables = fmt.Sprintf("%s | %s | %s | %s", whole(float64(k.bytes)/float64(k.txns)), grouped(int(k.txns)),
					whole(float64(k.lockBytes)/float64(k.locks)), grouped(int(k.locks)))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.name, log.text(whole), tables)
	}
	b.WriteString("\n")
}

func (m *measured) writeMemory(b *strings.Builder) {
	fmt.Fprintf(b, "## Memory of the service\n\nThe most that a new `velocityd serve` held resident while so many "+
		"connections asked at once.\n\n| | connections | MiB | checks/s | p99 | refused | without an answer "+
		"|\n|---|---|---|---|---|---|---|\n")
	for _, k := range m.memory {
		fmt.Fprintf(b, "| %s | %s | %.0f | %s | %s | %s | %s |\n", k.contender.name, grouped(k.connections),
			mebibytes(k.resident),
			whole(k.PerSecond()), duration(k.P99), grouped(int(k.Busy)), grouped(int(k.Errors)))
	}
	fmt.Fprintf(b, "\n## A locked gap\n\n64 callers ask for known buckets, and %d for new ones in a gap that another "+
		"session locks for %s s. Figures are those of the 64.\n\n| | checks/s | without the lock | share | p99 | refused "+
		"| without an answer |\n|---|---|---|---|---|---|---|\n", gapCallers, decimal(m.options.gapSeconds()))
	for _, g := range m.gaps {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", g.contender.name, whole(g.PerSecond()), whole(g.without),
			decimal(g.share()),
			duration(g.P99), grouped(int(g.Busy)), grouped(int(g.Errors)))
	}
	b.WriteString("\n")
}

func (m *measured) writeContenders(b *strings.Builder) {
	fmt.Fprintf(b, "## Contenders\n\n")
	told := map[string]bool{}
	for _, c := range m.stage.contenders {
		name := c.name
		if c.engine != nil {
			name = strings.TrimSuffix(name, ", "+c.engine.name())
		}
		if !told[name] {
			fmt.Fprintf(b, "- **%s**: %s.\n", name, c.about)
			told[name] = true
		}
	}
}

// text returns the median, and the extremes if there are several values.
func (s spread) text(format func(float64) string) string {
	switch {
	case s.of == 0:
		return "–"
	case s.least == s.most:
		return format(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", format(s.median), format(s.least), format(s.most))
}

func whole(f float64) string { return grouped(int(f + 0.5)) }

// decimal writes a number with up to two digits after the point.
func decimal(f float64) string { return strconv.FormatFloat(float64(int(f*100+0.5))/100, 'f', -1, 64) }

// grouped writes a number with commas, three digits each.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// duration writes a latency in a unit that fits it.
func duration(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f ms", ms)
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
