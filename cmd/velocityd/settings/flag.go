package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/files"
	"velocityd/internal/spelling"
)

// FileFlag names the file of settings.
type FileFlag struct {
	Config string `name:"config" env:"VELOCITY_CONFIG" placeholder:"FILE" help:"File of settings in YAML, one a line, such as 'listen: 0.0.0.0:8080': the names are those of the flags below. A flag wins over its variable, and a variable over the file."`
	file   *file
}

// BeforeResolve implements kong's hook that is called when the command line has been read. It reads the file, and
// lets kong look there for values that neither the command line nor the environment has.
func (f *FileFlag) BeforeResolve(command *kong.Context, p *shell.Process) error {
	f.file = nil
	path, _ := p.LookupEnv("VELOCITY_CONFIG")
	flags := command.Flags()
	for _, flag := range flags {
		if value, ok := command.FlagValue(flag).(string); ok && flag.Name == "config" && shell.Given(command, "config") {
			path = value
		}
	}
	if path == "" {
		return nil
	}
	file, err := readFile(path)
	if err != nil {
		return fmt.Errorf("--config (VELOCITY_CONFIG): %w", err)
	}
	if err := file.check(flags); err != nil {
		return err
	}
	f.file = file
	command.AddResolver(resolver{file: file, lookupEnv: p.LookupEnv})
	return nil
}

// readFile reads a file of settings. Only root and the program's own user may be able to write it.
func readFile(path string) (*file, error) {
	text, err := files.Read(path, files.ShortLimit)
	if err != nil {
		return nil, err
	}
	return decode(path, text)
}

// check returns an error unless each setting is one of the flags and has a value that the flag takes. It does not
// look at values together: validate does.
func (f *file) check(flags []*kong.Flag) error {
	byName := map[string]*kong.Flag{}
	for _, flag := range flags {
		if len(flag.Envs) > 0 && flag.Name != "config" && flag.Name != "dsn" {
			byName[flag.Name] = flag
		}
	}
	for _, s := range f.settings {
		flag := byName[s.name]
		if flag == nil {
			return f.unknown(s, byName)
		}
		if s.isList && flag.Target.Kind() != reflect.Slice {
			return f.fault(s.line, "%s takes one value and not a list", s.name)
		}
		value := reflect.New(flag.Target.Type()).Elem()
		scan := kong.ScanAsType(kong.FlagValueToken, s.text)
		if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, value); err != nil {
			return f.fault(s.line, "%s: %w", s.name, err)
		}
		if allowed := flag.EnumSlice(); flag.Enum != "" && !slices.Contains(allowed, fmt.Sprint(value.Interface())) {
			return f.fault(s.line, "%s must be one of %s; it is %q", s.name, strings.Join(allowed, ", "), s.text)
		}
	}
	return nil
}

// unknown returns the error of a setting that is none of the flags.
func (f *file) unknown(s setting, flags map[string]*kong.Flag) error {
	switch s.name {
	case "dsn":
		return f.fault(s.line, "a DSN holds a password and does not belong here: write it to a file that only root can "+
			"read, and name that file by dsn-file, or give it as the systemd credential %s", ask.CredentialName)
	case "config":
		return f.fault(s.line, "config cannot name a further file: remove the line")
	}
	said := fmt.Errorf("unknown setting %q in %s line %d", s.name, f.path, s.line)
	if name := nearest(s.name, flags); name != "" {
		return fmt.Errorf("%w: did you mean %s?", said, name)
	}
	return fmt.Errorf("%w: remove the line; the names are those of the flags, without dashes in front", said)
}

// nearest returns the flag whose name differs least from name, or "" if all differ much.
func nearest(name string, flags map[string]*kong.Flag) string {
	wanted := strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "_", "-")
	return spelling.Nearest(strings.TrimPrefix(wanted, "velocity-"), slices.Sorted(maps.Keys(flags)))
}

// resolver lets kong take values from a file.
type resolver struct {
	file      *file
	lookupEnv func(string) (string, bool)
}

// Validate implements kong.Resolver. The file has been checked already.
func (resolver) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. It returns nil where the environment has a value, because kong asks it last. A DSN
// in the environment wins over dsn-file as well.
func (r resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	variables := flag.Envs
	if flag.Name == "dsn-file" {
		variables = append([]string{"VELOCITY_DSN"}, variables...)
	}
	for _, name := range variables {
		if value, _ := r.lookupEnv(name); value != "" {
			return nil, nil //nolint:nilnil // tells kong that this resolver has no value
		}
	}
	for i := range r.file.settings {
		if s := &r.file.settings[i]; s.name == flag.Name {
			s.isUsed = true
			return s.text, nil
		}
	}
	return nil, nil //nolint:nilnil // tells kong that this resolver has no value
}

// Explain adds to an error of usage the lines of the file from which the flags come that the error names. Without a
// file it adds nothing.
func (f *FileFlag) Explain(err error) error {
	if f.file == nil || !errors.As(err, new(shell.UsageError)) {
		return err
	}
	named := regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(err.Error(), -1)
	var places []string
	for _, s := range f.file.settings {
		if s.isUsed && slices.Contains(named, "--"+s.name) {
			places = append(places, fmt.Sprintf("%s is in %s line %d", s.name, f.file.path, s.line))
		}
	}
	if len(places) == 0 {
		return err
	}
	return shell.UsageError{Err: fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))}
}
