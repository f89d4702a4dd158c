// Command mutants proves that tests watch the rule of velocityd: it makes one small fault after the other, and wants a
// test to fail each time. The faults stand in mutants.txt. The checkout is never changed: go reads the faulty text by
// its flag -overlay.
//
//	go run ./tools/mutants                  all of them
//	go run ./tools/mutants -quick lockout   those with this in their names, without the tests that need engines
//	go run ./tools/mutants -tree ../old     whether the tests of another checkout see them
//	go run ./tools/mutants -from tools/faults/mutants.txt     those that tools/faults finds
//
// A test has to fail twice, and to pass without the fault. The exit code is 1 if a fault passed all tests, or does not
// build.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed mutants.txt
var faults string

func main() {
	tree := flag.String("tree", ".", "the `folder` of the checkout with the code and the tests")
	out := flag.String("o", os.DevNull, "a `file` that gets the results as well")
	all := flag.Bool("all", false, "make all these faults at once, as one mutant")
	quick := flag.Bool("quick", false, "run only the tests that need no engine")
	list := flag.Bool("list", false, "run no test: list the mutants, and see that the tree has their texts")
	from := flag.String("from", "", "another list of mutants than mutants.txt: a `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := runner{tree: *tree, quick: *quick, passes: map[string]bool{}}
	text, err := []byte(faults), error(nil)
	if *from != "" {
		text, err = os.ReadFile(*from)
	}
	var mutants []mutant
	if err == nil {
		mutants, err = chosen(string(text), flag.Args(), *all)
	}
	if err == nil {
		err = r.carryOut(ctx, mutants, *list, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// carryOut tries the mutants, and returns an error if one of them was not killed.
func (r *runner) carryOut(ctx context.Context, mutants []mutant, isList bool, file string) (err error) {
	if r.tree, err = filepath.Abs(r.tree); err != nil {
		return err
	}
	copied, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = copied.Close() }()
	if r.temp, err = os.MkdirTemp("", "mutants-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.temp) }()
	out := io.MultiWriter(os.Stdout, copied)
	for _, m := range mutants {
		if _, wrong := m.texts(r.tree); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, wrong))
		}
		if isList {
			fmt.Fprintf(out, "%-44s %s\n", m.name, m.why)
		}
	}
	if err != nil {
		return err
	}
	began, sums := time.Now(), map[string]int{}
	for i := 0; i < len(mutants) && !isList; i++ {
		begin := time.Now()
		result, by, err := r.try(ctx, mutants[i])
		if err != nil {
			return fmt.Errorf("%s: %w", mutants[i].name, err)
		}
		sums[result]++
		fmt.Fprintf(out, "%-14s %-44s %6.1f s  %s\n", result, mutants[i].name, time.Since(begin).Seconds(), by)
	}
	sum := fmt.Sprintf("of %d mutants %d survived, and %d do not build", len(mutants), sums[survived], sums[broken])
	fmt.Fprintf(out, "%s; %.0f s\n", sum, time.Since(began).Seconds())
	if sums[survived]+sums[broken] > 0 {
		return errors.New(sum)
	}
	return nil
}

// mutant is a fault, and the tests that may see it.
type mutant struct {
	name, why string
	edits     []edit
	stages    []stage // in this order, until one fails
}

// edit replaces a text that a file has once.
type edit struct{ file, old, new string }

// stage is one call of go test, or of tools/faults.
type stage struct {
	args       []string
	hasEngines bool
	isFaults   bool
}

// parse reads a list, whose head explains its lines.
func parse(text string) (list []mutant) {
	var file string
	var ofFile []stage
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, body, _ := strings.Cut(block, "\n")
		var old, made []string
		var stages []stage
		for line := range strings.SplitSeq(body, "\n") {
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case strings.HasPrefix(line, "-"):
				old = append(old, line[1:])
			case strings.HasPrefix(line, "+"):
				made = append(made, line[1:])
			case word == "quick" || word == "engine" || word == "faults":
				stages = append(stages, stage{strings.Fields(rest), word != "quick", word == "faults"})
			}
		}
		switch word, rest, _ := strings.Cut(head, " "); word {
		case "file":
			file, ofFile = rest, stages
		case "mutant":
			name, why, _ := strings.Cut(rest, ": ")
			e := edit{file, strings.Join(old, "\n"), strings.Join(made, "\n")}
			list = append(list, mutant{name, why, []edit{e}, slices.Concat(stages, ofFile)})
		}
	}
	return list
}

// chosen returns the mutants with one of these patterns in their names, or one with the faults of all of them.
func chosen(text string, patterns []string, isOne bool) ([]mutant, error) {
	pattern, err := regexp.Compile(strings.Join(patterns, "|"))
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(parse(text), func(m mutant) bool { return !pattern.MatchString(m.name) })
	if len(list) == 0 {
		return nil, errors.New("no mutant has such a name")
	}
	for one := &list[0]; isOne && len(list) > 1; list = slices.Delete(list, 1, 2) {
		one.name += "+" + list[1].name
		one.edits, one.stages = append(one.edits, list[1].edits...), append(one.stages, list[1].stages...)
	}
	return list, nil
}

// texts returns the faulty texts by their paths in a tree.
func (m mutant) texts(tree string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, e := range m.edits {
		path := filepath.Join(tree, e.file)
		text, err := texts[path], error(nil)
		if text == nil {
			text, err = os.ReadFile(path)
		}
		found := wrapped(e.old).FindAllIndex(text, -1)
		if n := len(found); err != nil || n != 1 {
			return nil, errors.Join(fmt.Errorf("its text is %d times in %s, and must be there once", n, e.file), err)
		}
		texts[path] = slices.Concat(text[:found[0][0]], []byte(e.new), text[found[0][1]:])
	}
	return texts, nil
}

// wrapped finds a text however its lines are broken.
func wrapped(text string) *regexp.Regexp {
	pattern := regexp.MustCompile(`\s+`).ReplaceAllString(regexp.QuoteMeta(text), `\s+`)
	return regexp.MustCompile(strings.ReplaceAll(pattern, `\(`, `\(\s*`))
}
