package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// yesFlag is for commands that ask before they change something.
type yesFlag struct {
	Yes bool `env:"-" help:"Do it without a question. A program that nobody watches needs this."`
}

// confirm asks a question on stderr, and returns nil if it is answered by yes on stdin. If nobody
// answers, that is no. The question may be interrupted.
func (f yesFlag) confirm(ctx context.Context, p *process, question string) error {
	if f.Yes {
		return nil
	}
	fmt.Fprintf(p.stderr, "%s [y/N] ", question)
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
	switch strings.ToLower(strings.TrimSpace(given)) {
	case "y", "yes":
		return nil
	}
	if given == "" {
		fmt.Fprintln(p.stderr)
		return errors.New("nothing was changed: nobody answered the question; --yes does it without one")
	}
	return errors.New("nothing was changed")
}
