package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/zone"
	"velocityd/db/session"
	"velocityd/service/queue"
)

// newParser returns the parser of command lines. It takes environment variables from
// p and not, as kong would, from the process, so that tests can run in parallel.
func newParser(grammar any, p *shell.Process, exit func(int)) (*kong.Kong, error) {
	if field := reflect.ValueOf(grammar).Elem().FieldByName("Zone"); field.IsValid() {
		if command, isZone := field.Addr().Interface().(*zone.Command); isZone {
			command.MakeFlags()
		}
	}
	dataFolder, _ := defaultDataFolder(p.LookupEnv) // "" if unknown; devCmd reports it
	parser, err := kong.New(grammar,
		kong.Name("velocityd"), kong.Description(description),
		kong.Writers(p.Stdout, p.Stderr), kong.Exit(exit), kong.Bind(p),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.ValueFormatter(describe),
		kong.KindMapper(reflect.Int, kong.MapperFunc(decimal)), kong.KindMapper(reflect.Int64, kong.MapperFunc(decimal)),
		kong.KindMapper(reflect.Uint64, kong.MapperFunc(decimal)), kong.KindMapper(reflect.Slice, lists()),
		kong.Vars{
			"data_folder": dataFolder, "queue": strconv.Itoa(queue.DefaultQueue),
			"max_conns": strconv.Itoa(session.DefaultMaxConns), "lock_wait": session.DefaultLockWait.String(),
			"degraded_after": queue.DefaultDegradedAfter.String(),
		},
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			for _, name := range flag.Envs {
				if value, _ := p.LookupEnv(name); value != "" {
					return value, nil
				}
			}
			return nil, nil //nolint:nilnil // tells kong that the variable is not set
		})))
	if err != nil {
		return nil, err
	}
	return parser, stopEnvironmentLookups(parser)
}

// lists returns the reader of every list: of a flag, a variable and a file of settings. It reads as kong does, but for
// blanks around an entry, which are left out, and for an empty entry, which is refused: the last one would be left out
// without a word.
func lists() kong.MapperFunc {
	numbers := kong.MapperFunc(decimal)
	entries := kong.NewRegistry().RegisterDefaults().RegisterKind(reflect.Int, numbers).RegisterKind(reflect.Int64,
		numbers)
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		token := ctx.Scan.Peek()
		text, isText := token.Value.(string)
		if separator := ctx.Value.Tag.Sep; ctx.Value.Flag != nil && separator != -1 && isText && text != "" {
			list := kong.SplitEscaped(text, separator)
			for i := range list {
				list[i] = strings.TrimSpace(list[i])
			}
			// SplitEscaped leaves out an empty end.
			if slices.Contains(list, "") || strings.HasSuffix(text, string(separator)) {
				return fmt.Errorf("an entry of the list %q is empty: take a separator (%c) out, or write the entry", text,
					separator)
			}
			ctx.Scan.Pop()
			ctx.Scan.PushTyped(kong.JoinEscaped(list, separator), token.Type)
		}
		return entries.ForType(target.Type()).Decode(ctx, target)
	}
}

// decimal reads a whole number. kong's own mappers would take 010 for 8, and 0x10 and 1_0 for numbers.
func decimal(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("number")
	if err != nil {
		return err
	}
	text := fmt.Sprint(token.Value)
	if target.CanUint() {
		n, err := strconv.ParseUint(text, 10, target.Type().Bits())
		target.SetUint(n)
		return wholeNumber(text, err)
	}
	n, err := strconv.ParseInt(text, 10, target.Type().Bits())
	target.SetInt(n)
	return wholeNumber(text, err)
}

// wholeNumber returns the error of a text that is not read as a number.
func wholeNumber(text string, err error) error {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too large", text)
	case err != nil:
		return fmt.Errorf("expected a whole number but got %q", text)
	}
	return nil
}

// stopEnvironmentLookups stops kong from looking up environment variables itself. Their
// names stay with the flags, for the help and for the resolver.
func stopEnvironmentLookups(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flag.Tag.Envs = nil
			if len(flag.Envs) == 1 && flag.Envs[0] == noEnv {
				flag.Envs = nil
			}
		}
		return next(nil)
	})
}

// noEnv marks flags that have no environment variable: no variable that was set for something else
// may have their effect.
const noEnv = "-"

// describe returns the help of a flag with its default and its variable.
func describe(value *kong.Value) string {
	if value.Flag == nil {
		return value.Help
	}
	var notes []string
	if value.HasDefault && value.Default != "" {
		notes = append(notes, "default "+value.Default)
	}
	for _, name := range value.Flag.Envs {
		notes = append(notes, "$"+name)
	}
	if len(notes) == 0 {
		return value.Help
	}
	return fmt.Sprintf("%s [%s]", value.Help, strings.Join(notes, ", "))
}

// defaultDataFolder returns the folder in which dev keeps its database unless --data
// names another.
func defaultDataFolder(lookupEnv func(string) (string, bool)) (string, error) {
	if base, _ := lookupEnv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "velocityd"), nil
	}
	if home, _ := lookupEnv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "velocityd"), nil
	}
	return "", errors.New("neither XDG_DATA_HOME nor HOME is set")
}
