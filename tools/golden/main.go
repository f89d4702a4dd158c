// Command golden compares the answers of velocityd with answers that were written down: every operation of its
// description, every command, and every public procedure, on a database that the script fills.
//
//	go run ./tools/golden -engine mysql              compare with answers-mysql.txt
//	go run ./tools/golden -engine mysql -write       write them
//	go run ./tools/golden -engine mysql -binary X    ask another build
//
// Times, ids, versions and random values stand as placeholders, numbered by their first appearance in an answer, so
// that two runs are alike. The exit code is 1 if an answer differs, and 2 if the script leaves out an operation, a
// command or a procedure.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

//go:embed script.txt
var script string

// errLeftOut is the error of a script that does not ask everything.
var errLeftOut = errors.New("the script leaves out")

func main() {
	binary := flag.String("binary", "bin/velocityd", "the `program` to ask")
	engine := flag.String("engine", "mysql", "the `engine` of the database, as velocityd dev names it")
	write := flag.Bool("write", false, "write the answers down")
	folder := flag.String("answers", "tools/golden", "the `folder` of the answers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binary, *engine, filepath.Join(*folder, "answers-"+*engine+".txt"), *write)
	stop()
	switch {
	case errors.Is(err, errLeftOut):
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

// run asks a program everything, and compares or writes the answers.
func run(ctx context.Context, binary, engine, file string, write bool) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	s, err := start(ctx, binary, engine)
	if err != nil {
		return fmt.Errorf("start velocityd dev on %s: %w", engine, err)
	}
	defer s.stop()
	got, err := s.play(ctx, script)
	if err != nil {
		return err
	}
	if err := s.leftOut(ctx); err != nil {
		return err
	}
	if write {
		return os.WriteFile(file, got, 0o600)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return differences(want, got, file)
}

// differences prints the answers that are not as they were written down.
func differences(want, got []byte, file string) error {
	questions, before := answersIn(want)
	asked, now := answersIn(got)
	differ := 0
	for _, question := range slices.Concat(questions, asked) {
		old, new := before[question], now[question]
		if old != new {
			differ++
			fmt.Printf("== %s\n- %s\n+ %s\n\n", question, strings.ReplaceAll(old, "\n", "\n- "),
				strings.ReplaceAll(new, "\n", "\n+ "))
		}
		delete(before, question)
		delete(now, question)
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d answers are not those of %s; if the changelog says so, write them anew by -write", differ,
			len(asked), file)
	}
	fmt.Printf("golden: %d answers are those of %s\n", len(asked), file)
	return nil
}

// answersIn returns the questions of a file, which begin with "== ", and their answers. One that is asked again has a
// number.
func answersIn(text []byte) (questions []string, answers map[string]string) {
	answers = map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\n== ")[1:] {
		question, answer, _ := strings.Cut(part, "\n")
		name := question
		for n := 2; ; n++ {
			if _, isAsked := answers[name]; !isAsked {
				break
			}
			name = fmt.Sprintf("%s (%d)", question, n)
		}
		questions, answers[name] = append(questions, name), answer
	}
	return questions, answers
}
