package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// YesFlag is for commands that ask before they change something.
type YesFlag struct {
	Yes bool `env:"-" help:"Do it without a question. Where a command always asks, a program without a terminal needs this."`
}

// Confirm asks a question on stderr, and returns nil if it is answered by yes on stdin. No
// answer means no. The question may be interrupted.
func (f YesFlag) Confirm(ctx context.Context, p *Process, question string) error {
	return f.ask(ctx, p, question+" [y/N] ", "y", "yes")
}

// ConfirmTyped is Confirm for changes that cannot be taken back: the answer is a word that the question names.
func (f YesFlag) ConfirmTyped(ctx context.Context, p *Process, question, word string) error {
	return f.ask(ctx, p, fmt.Sprintf("%s Type %q to go on: ", question, word), word)
}

// ask returns nil if the answer is one of some words.
func (f YesFlag) ask(ctx context.Context, p *Process, question string, words ...string) error {
	if f.Yes {
		return nil
	}
	fmt.Fprint(p.Stderr, question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(p.Stdin).ReadString('\n')
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
		fmt.Fprintln(p.Stderr)
		return errors.New("nothing was changed: the question got no answer; --yes does it without one")
	}
	return errors.New("nothing was changed")
}
