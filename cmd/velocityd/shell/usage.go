package shell

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// UsageError says that the command line or the environment is wrong.
type UsageError struct {
	Err     error
	Command string // the command whose --help explains more, or ""
}

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the command.
func (e UsageError) Unwrap() error { return e.Err }

// Hint says where usage is explained.
func (e UsageError) Hint() string {
	path := cmp.Or(e.Command, "velocityd")
	var parse *kong.ParseError
	if errors.As(e.Err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		path = CallOf(parse.Context.Selected())
	}
	return fmt.Sprintf("Run '%s --help' for usage.", path)
}

// CallOf returns the full name of a command, such as "velocityd zone set".
func CallOf(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return CallOf(node.Parent) + " " + node.Name
}

// Usagef returns a UsageError with this text.
func Usagef(format string, args ...any) error { return UsageError{Err: fmt.Errorf(format, args...)} }

// ErrFindings makes the program end with the exit code of findings. It is an answer, not a fault.
var ErrFindings = errors.New("findings")

// Given reports whether one of these flags is on the command line itself.
func Given(command *kong.Context, names ...string) bool {
	return slices.ContainsFunc(command.Path, func(p *kong.Path) bool {
		return p.Flag != nil && !p.Resolved && slices.Contains(names, p.Flag.Name)
	})
}
