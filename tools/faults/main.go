//go:build linux

// Command faults proves the promises of velocityd under faults: two instances of the real program on a real engine,
// callers over HTTP, gRPC and SQL, and in each round a few faults that the seed draws. Two witnesses judge: the records
// of the callers, which this program keeps, and the rows, by `velocityd audit`. It must not share code with the
// service, and imports none.
//
//	go run ./tools/faults -minutes 20                20 minutes on MySQL and MariaDB in turns
//	go run ./tools/faults -seed 71 -rounds 1 -engine mysql     the round of a seed once more
//	go run ./tools/faults -only linear               histories for the check of linearizability alone, with the faults
//	go run ./tools/faults -only dense -fault none    long histories, which show a window that is some microseconds short
//	go run ./tools/faults -fault kill-engine,cut     rounds with these faults alone; none: rounds without any
//
// A round with seed S is that of every run that comes to S: the first round has the seed that is printed first, and
// each further one the next. The exit code is 1 if a promise was broken; a folder then has the logs, the callers'
// records and the engine's data. What cannot be done on this machine is NOT RUN, and with CI=true that is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
	"velocityd/tools/enginetest/program"
)

// options are the flags.
type options struct {
	seed    uint64
	rounds  int
	minutes float64
	engines []string
	faults  []string
	only    string // "linear", "dense", "records" or "" for all
	keep    string
	quiet   time.Duration // without faults, before and after them
}

func main() {
	var o options
	var engines, faults string
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix())%1_000_000, "the `number` from which all is drawn")
	flag.IntVar(&o.rounds, "rounds", 0, "end after so many rounds; 0: by the time alone")
	flag.Float64Var(&o.minutes, "minutes", 20, "begin no round later; 0: by the rounds alone")
	flag.StringVar(&engines, "engine", "mysql,mariadb-11.8", "the engines, in turns")
	flag.StringVar(&faults, "fault", "", "draw from these faults alone; none: no faults")
	flag.StringVar(&o.only, "only", "", "linear: histories alone; dense: those of hundreds of calls alone; records: none")
	flag.StringVar(&o.keep, "keep", "",
		"the `folder` for the evidence of broken promises; default: a new one in the temporary folder")
	flag.DurationVar(&o.quiet, "quiet", 3*time.Second, "time without faults at the begin and the end of a round")
	flag.Parse()
	o.engines, o.faults = strings.Split(engines, ","), strings.FieldsFunc(faults, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// run carries out the rounds, and prints the verdict.
func run(ctx context.Context, o options) error {
	fmt.Printf("seed %d\n", o.seed)
	_ = mysql.SetLogger(&mysql.NopLogger{}) // the faults break its connections all the time
	temp, err := os.MkdirTemp("", "vf-")    // short, because a socket's path is
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	l := &lab{options: o, temp: temp, binary: filepath.Join(temp, "velocityd")}
	if err := program.Build(ctx, l.binary); err != nil {
		return err
	}
	kinds, engines, err := l.kinds(ctx), l.found(ctx), error(nil)
	began, sum := time.Now(), newVerdict()
	for i := 0; len(engines) > 0 && (o.rounds == 0 || i < o.rounds); i++ {
		if ctx.Err() != nil || o.minutes > 0 && i > 0 && time.Since(began).Minutes() > o.minutes {
			break
		}
		seed := o.seed + uint64(i)
		v, failed := l.round(ctx, engines[i%len(engines)], seed, draw(kinds, seed))
		if failed != nil { // of this tool or an engine, and no verdict: the other rounds go on
			fmt.Printf("round with seed %d: %v\n", seed, failed)
			err = errors.New("a round has no verdict")
			continue
		}
		sum.add(v)
	}
	sum.print(os.Stdout, time.Since(began))
	switch {
	case err != nil:
		return err
	case sum.isBroken():
		return errors.New("a promise was broken")
	case l.lacks && os.Getenv("CI") == "true":
		return errors.New("a part was NOT RUN")
	}
	return nil
}

// lab is what the rounds share.
type lab struct {
	options

	temp      string
	binary    string
	former    string   // a program with the schema of a release before, or ""
	templates []string // the folders with a migrated database
	lacks     bool     // a part was NOT RUN
}

// lacksFor says whether something is missing, and prints that.
func (l *lab) lacksFor(part string, why error) bool {
	if why != nil {
		fmt.Printf("%s NOT RUN: %v\n", part, why)
		l.lacks = true
	}
	return why != nil
}

// found are the engines that are on this machine.
func (l *lab) found(ctx context.Context) []string {
	return slices.DeleteFunc(l.engines, func(name string) bool {
		_, err := localdb.Find(ctx, localdb.Engine(name))
		return l.lacksFor("engine "+name, err)
	})
}

// kinds are the faults to draw from.
func (l *lab) kinds(ctx context.Context) []fault {
	for _, name := range l.faults {
		if name != "none" && !slices.ContainsFunc(table(), func(f fault) bool { return f.name == name }) {
			l.lacksFor("fault "+name, errors.New("there is no such fault"))
		}
	}
	return slices.DeleteFunc(table(), func(f fault) bool {
		isChosen := len(l.faults) == 0 || slices.Contains(l.faults, f.name)
		return !isChosen || f.missing != nil && l.lacksFor("fault "+f.name, f.missing(ctx, l))
	})
}

// faultsARound is how many kinds of fault meet in a round.
const faultsARound = 3

// draw returns the faults of a round. Each kind is the first of them once in as many rounds as there are kinds.
func draw(kinds []fault, seed uint64) []fault {
	if len(kinds) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 1))
	drawn := []fault{kinds[seed%uint64(len(kinds))]}
	for _, i := range r.Perm(len(kinds)) {
		alone := slices.ContainsFunc(
			drawn, func(f fault) bool { return f.name == kinds[i].name || f.isAlone && kinds[i].isAlone })
		if len(drawn) < faultsARound && !alone {
			drawn = append(drawn, kinds[i])
		}
	}
	return drawn
}

// round starts an engine and two instances, lets callers and faults at them, and judges.
func (l *lab) round(ctx context.Context, engine string, seed uint64, faults []fault) (*verdict, error) {
	begin := time.Now()
	v := newVerdict()
	v.rounds[engine]++
	w, err := l.open(ctx, engine, seed, faults)
	if errors.Is(err, program.ErrUnready) {
		v.breaks(isReady, "seed %d on %s, before any fault: %v", seed, engine, err)
		fmt.Printf("%-13s seed %-8d not ready before any fault\n", engine, seed)
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	defer w.close()
	load, stop := context.WithCancel(ctx)
	defer stop()
	done := w.load(load)
	pause(ctx, l.quiet)
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	failed := w.harm(ctx, faults)
	w.awaitReady(ctx, v)
	pause(ctx, l.quiet)
	stop()
	<-done
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return nil, err
	}
	if err := w.judge(ctx, v); err != nil {
		return nil, err
	}
	fmt.Printf("%-13s seed %-8d %5.1f s  %6d answers, %5d refused, %4d undecided, longest silence %4.1f s  %s\n",
		engine, seed, time.Since(begin).Seconds(), v.answers, v.refused, v.unknown, v.silence.Seconds(),
		strings.Join(names, " "))
	if v.isBroken() {
		return v, w.keep(v)
	}
	return v, nil
}

// pause waits, or until the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
