// Package shell is the shell as each command has it: the process with its streams, wrong usage, questions, lengths of
// time on a command line, and text that is safe on a terminal. It knows no command and no store.
package shell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/mattn/go-isatty"
)

// Process is the part of the operating system's process that a command may use.
type Process struct {
	LookupEnv        func(string) (string, bool)
	Environ          []string // the variables, as os.Environ has them
	UnknownVariables []string // names of variables that look like the program's and have no effect
	Stdin            io.Reader
	Stdout           io.Writer
	Stderr           io.Writer
	Version          string // of the program
	// Principal is the name of the program's user, for zone_audit.
	Principal string
	// Logger is set by a command that writes its log as JSON. Then the error that the
	// command ends with is a line of that log.
	Logger *slog.Logger
}

// Output remembers the first error of writing to standard output, so that no command needs
// to look at each.
type Output struct {
	To  io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.To.Write(p)
	o.Err = cmp.Or(o.Err, err)
	return n, err
}

// WriteError returns the error of an output that did not arrive. A reader that has gone needs none.
func (o *Output) WriteError() error {
	if o.Err == nil || errors.Is(o.Err, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("write the output: %w", o.Err)
}

// IsTerminal reports whether a person can be at the other end of a stream.
func IsTerminal(stream any) bool {
	if checked, ok := stream.(*Output); ok {
		stream = checked.To
	}
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}
