// Command scale says what the service would do on more machines than one: it finds what a check
// costs each process from measured runs, holds a simulation of these runs against them, and writes
// plans and simulations of larger clusters into a page: `make scale`. It measures nothing; `make
// bench-cluster` does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"velocityd/bench/round"
	"velocityd/bench/sim"
)

// The written part of the page is between these lines.
const (
	beginMark = "<!-- scale:begin -->"
	endMark   = "<!-- scale:end -->"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// options are the settings of the command line.
type options struct {
	runs, page, chart string
	hold              bool
	shards            int
	seconds           float64
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.StringVar(&o.runs, "runs", filepath.Join("docs", "scale-out.json"), "file of measured runs")
	flags.StringVar(&o.page, "page", filepath.Join("docs", "scale-out-figures.md"), "file whose marked section is written")
	flags.StringVar(&o.chart, "chart", filepath.Join("docs", "scale-out.svg"), "chart to write")
	flags.BoolVar(&o.hold, "hold", false, "only hold the simulation against the measured runs and print that")
	flags.IntVar(&o.shards, "shards", 64, "shards of the largest simulated cluster")
	flags.Float64Var(&o.seconds, "seconds", 0.4, "how long a large cluster is simulated and counted, in its own time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.shards < 1 || o.seconds <= 0 {
		return o, errors.New("shards and seconds must be above zero")
	}
	return o, nil
}

// holdLength is how long a measured run is simulated.
const holdLength = 4 * time.Second

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	runs, err := round.ReadRuns(o.runs)
	if err != nil {
		return err
	}
	var b strings.Builder
	costs, err := writeCosts(&b, runs)
	if o.hold {
		fmt.Print(b.String()) // what there is
		return err
	}
	if err != nil {
		return err
	}
	all := curves()
	fsync := millis(runs.Fsync)
	writeModel(&b, costs, fsync)
	began := time.Now()
	progress := func(text string) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), text)
	}
	if err := simulate(all, o.shards, costs, fsync, time.Duration(o.seconds*float64(time.Second)), progress); err != nil {
		return err
	}
	writeSimulations(&b, all, o)
	return publish(o, b.String(), chart(all))
}

// writeCosts writes what a check costs on one MySQL and on Vitess, as fitted, and how far the
// simulation is from each run. It returns the costs on Vitess.
func writeCosts(b *strings.Builder, runs round.Runs) (sim.Costs, error) {
	var plain, vitess []round.Run
	for _, r := range runs.Runs {
		if r.Shards == 0 {
			plain = append(plain, r)
		} else {
			vitess = append(vitess, r)
		}
	}
	fmt.Fprintf(b, "### What a check costs\n\nMeasured on %s. A write and its fsync took %.2f ms.\n\n", runs.Machine, runs.Fsync)
	var costs sim.Costs
	for _, k := range []struct {
		name string
		runs []round.Run
	}{{"One MySQL", plain}, {"Vitess", vitess}} {
		f, err := fit(k.runs)
		if err != nil {
			return costs, fmt.Errorf("fit %s: %w: make bench-cluster measures them", k.name, err)
		}
		costs = f.costs
		writeFitted(b, k.name, f)
		all, err := hold(runs, k.runs, f.costs, holdLength)
		if err != nil {
			return costs, err
		}
		writeHeld(b, all)
	}
	return costs, nil
}

// writeFitted writes the costs of each kind of process and their sources.
func writeFitted(b *strings.Builder, name string, f fitted) {
	fmt.Fprintf(b, "#### %s\n\nProcessor time in µs, fitted to the runs whose batches were counted:\n\n", name)
	for _, r := range f.from {
		fmt.Fprintf(b, "- %s (%s)\n", r.Name, r.Source)
	}
	b.WriteString("\n| | a batch | a shard that it touches | a bucket | a check |\n|---|---|---|---|---|\n")
	for _, k := range []struct {
		kind string
		cost sim.Cost
	}{
		{round.Velocityd, f.costs.Service},
		{round.Vtgate, f.costs.Gate},
		{round.Vttablet, f.costs.Tablet},
		{round.Mysqld, f.costs.Server},
		{round.ZoneTablet, f.costs.ZoneTablet},
		{round.ZoneMysqld, f.costs.ZoneServer},
		{round.Load, f.costs.Load},
	} {
		if k.cost == (sim.Cost{}) {
			continue
		}
		us := func(d time.Duration) string {
			if d == 0 {
				return "–"
			}
			return fmt.Sprintf("%.1f", d.Seconds()*1e6)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", k.kind, us(k.cost.Batch), us(k.cost.Part), us(k.cost.Bucket), us(k.cost.Check))
	}
	b.WriteString("\n")
}

// writeModel writes the plans and what comes to its limit next.
func writeModel(b *strings.Builder, costs sim.Costs, fsync time.Duration) {
	fmt.Fprintf(b, "### What a rate needs\n\nArithmetic from the costs above. Supposed, and measured by nobody here: %v a message between machines, one way; "+
		"%d fsyncs a group of commits, of %.2f ms as above; cores as quick as the measured ones and used %.0f %%; %d cores a machine; blocks of %s ids. "+
		"Batches have at most %d checks: where lanes would make longer ones, there are more shards or instances. \"None\" means that no size does it: each shard more costs more than it gives. "+
		"Replicas and the copies that they keep come on top. Bytes: %d a txn with its index and %d of binary log, docs/performance.md.\n\n",
		way, fsyncs, fsync.Seconds()*1e3, 100*busy, cores, grouped(cache), longest, txnBytes, logBytes)
	for _, k := range []struct {
		title   string
		buckets int
		sticky  bool
	}{
		{fmt.Sprintf("One bucket, and the callers of a key ask the same %d instances", homes), 1, true},
		{"One bucket, and callers ask any instance", 1, false},
		{fmt.Sprintf("User and address, and the callers of a user ask the same %d instances", homes), 2, true},
	} {
		var plans []plan
		for _, perSecond := range []float64{50_000, 250_000, 1_000_000} {
			plans = append(plans, newPlan(perSecond, k.buckets, k.sticky, costs, fsync))
		}
		fmt.Fprintf(b, "#### %s\n\n", k.title)
		writePlans(b, plans)
	}
	writeLimits(b, costs, fsync)
}

// writeLimits writes where the next limits are that more shards do not move.
func writeLimits(b *strings.Builder, costs sim.Costs, fsync time.Duration) {
	b.WriteString("### Limits that more shards do not move\n\n| | checks/s |\n|---|---|\n")
	for _, batch := range []float64{1, 16, 125, 500} {
		fmt.Fprintf(b, "| one hot bucket, %.0f of its checks in a batch | %s |\n", batch, grouped(hot(batch, costs, fsync)))
	}
	for _, ids := range []float64{1_000, 10_000, 100_000} {
		block := costs.Server.Part.Seconds() + fsyncs*fsync.Seconds()
		fmt.Fprintf(b, "| the sequence, blocks of %s ids, one block after the other, a check of two buckets | %s |\n", grouped(ids), grouped(ids/block/2))
	}
	for _, batch := range []float64{1, 10, 100} {
		dearest := max(costs.ZoneTablet.Batch, costs.ZoneServer.Batch).Seconds()
		fmt.Fprintf(b, "| the unsharded keyspace, %d cores, %.0f checks in a batch | %s |\n", cores, batch, grouped(cores/dearest*batch))
	}
	b.WriteString("\n")
	for _, perCall := range []float64{1, 100} {
		p := newPlan(1_000_000, 1, true, costs, fsync)
		fmt.Fprintf(b, "Reports by txn id ask every shard. One report for each of 1,000,000 checks a second, %.0f in a call, over %d shards, would take %s cores of vttablets and mysqlds besides.\n\n",
			perCall, p.shards, grouped(reports(p, perCall, costs)))
	}
}

func writeSimulations(b *strings.Builder, all []curve, o options) {
	fmt.Fprintf(b, "### Simulated clusters\n\n![Simulated checks a second by shards](%s)\n\n"+
		"For each shard a mysqld, a vttablet, a vtgate and an instance of velocityd, at least two of the latter, all on machines of their own with %d cores; one unsharded keyspace. "+
		"%s checks/s are asked for each shard, at random instants, of 10,000,000 users and 5,000,000 addresses with an exponent of 0.6, for %.1f s after as many to warm up. "+
		"\"Keys at home\" means that a key's callers ask the same %d instances. The percentages are of the one of its kind that is used most.\n\n",
		filepath.Base(o.chart), cores, grouped(perShard), o.seconds, homes)
	writeCurves(b, all)
}

// publish writes the page's marked section and the chart.
func publish(o options, text, image string) error {
	page, err := os.ReadFile(o.page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, found := strings.Cut(string(page), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !found || !ends {
		return fmt.Errorf("%s: it has no marked section", o.page)
	}
	changed := before + beginMark + "\n" + strings.TrimSpace(text) + "\n" + endMark + after
	if err := os.WriteFile(o.page, []byte(changed), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.WriteFile(o.chart, []byte(image), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}
