// Command engines starts a server of each engine that tests run on, runs a command (engines go test ./db ./docs), whose
// tests share these servers, and ends with its status. It leaves no process and no file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"velocityd/tools/enginetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "engines: give a command to run")
		os.Exit(2)
	}
	err := enginetest.Lend(ctx, os.Args[1:])
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		fmt.Fprintln(os.Stderr, "engines:", err)
	}
	switch {
	case err == nil:
		os.Exit(0)
	case ended != nil && ended.ExitCode() > 0:
		os.Exit(ended.ExitCode())
	default:
		os.Exit(1)
	}
}
