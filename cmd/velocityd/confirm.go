package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// yesFlag is for commands that ask before they change something.
type yesFlag struct {
	Yes bool `env:"-" help:"Do it without a question. A program that nobody watches needs this."`
}

// confirm asks a question on stderr, and returns nil if it is answered by yes on stdin. If nobody
// answers, that is no. The question may be interrupted.
func (f yesFlag) confirm(ctx context.Context, p *process, question string) error {
	return f.ask(ctx, p, question+" [y/N] ", "y", "yes")
}

// confirmTyped is confirm for what nobody can take back: the answer is a word that the question names.
func (f yesFlag) confirmTyped(ctx context.Context, p *process, question, word string) error {
	return f.ask(ctx, p, fmt.Sprintf("%s Type %q to go on: ", question, word), word)
}

// ask returns nil if the answer is one of some words.
func (f yesFlag) ask(ctx context.Context, p *process, question string, words ...string) error {
	if f.Yes {
		return nil
	}
	fmt.Fprint(p.stderr, question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(p.stdin).ReadString('\n')
		if err != nil {
			line = "" // the end of the input, also within a line
		}
		answer <- line
	}()
	var given string
	select {
	case <-ctx.Done():
		return fmt.Errorf("nothing was changed: %w", ctx.Err())
	case given = <-answer:
	}
	if slices.Contains(words, strings.ToLower(strings.TrimSpace(given))) {
		return nil
	}
	if given == "" {
		fmt.Fprintln(p.stderr)
		return errors.New("nothing was changed: nobody answered the question; --yes does it without one")
	}
	return errors.New("nothing was changed")
}
