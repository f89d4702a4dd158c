package main

import (
	"slices"
	"strings"
	"testing"

	"velocityd/service"

	"github.com/alecthomas/kong"
)

func TestEveryFlagHasHelpAndVariable(t *testing.T) {
	t.Parallel()
	said := []string{ // each time, by design
		"help", "version", "steps", "all", "secret-hash",
		"by", "since", "until",
		"action", "expires", "reason", "attempt-id", "scope", "zone", "client-cert", "client-subject", "out", "out-secret",
		"service", "service-edits-zones", "analyst", "dba", "auditor", "dry-run", "yes", "method", "header", "url-path",
		"client", "key", "blocked", "would-block", "outcome", "since", "until", "order", "limit", "from", "after", "output",
		"users-zone", "addresses-zone", "spray-users", "spray-within", "sources", "sources-within", "keys", "most-rows",
		"type", "events", "event",
		"all-locked", "same-reason", "first-zone", "strict", "findings", "sshd", "subject", "preset",
	}
	for _, setting := range service.Settings {
		said = append(said, strings.ReplaceAll(setting.Name, "_", "-"))
	}
	parser := parserOf(t, &cli{}, environment{})
	flags := 0
	err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flags++
			if len(flag.Help) < 10 {
				t.Errorf("--%s says nothing of itself", flag.Name)
			}
			want := "VELOCITY_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if flag.Name == "data" && flag.PlaceHolder == "TEXT" {
				return next(nil) // of gate try; elsewhere it is a folder
			}
			if !slices.Contains(said, flag.Name) && !slices.Equal(flag.Envs, []string{want}) {
				t.Errorf("--%s has the variables %q, want %s", flag.Name, flag.Envs, want)
			}
			if slices.Contains(said, flag.Name) && len(flag.Envs) != 0 {
				t.Errorf("--%s must not be set by %q", flag.Name, flag.Envs)
			}
		}
		return next(nil)
	})
	if err != nil || flags < 20 {
		t.Errorf("visited %d flags: %v", flags, err)
	}
}

func TestHelpExplainsEveryCommand(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "serve", "dev", "migrate", "migrate up", "migrate down", "migrate status", "migrate roles", "doctor", "check",
		"outcome", "health", "attempt", "zone",
		"zone list", "zone show", "zone set",
		"zone apply", "zone delete", "zone restore", "zone lint", "override", "override list", "override set",
		"override delete", "bucket",
		"bucket peek",
		"bucket release", "replay", "report", "completion", "gate", "gate lint", "gate try", "import ratelimit", "token",
		"token create", "token list", "token revoke",
	} {
		r := command(nil, nil, append(strings.Fields(args), "--help")...)
		if r.code != exitSuccess || !strings.Contains(r.stdout, "Usage: velocityd "+args) || r.stderr != "" {
			t.Errorf("%s --help: %+v", args, r)
		}
		_, member, _ := strings.Cut(args, " ")
		if group := member != "" && args != "migrate down" && args != "zone set" && args != "zone lint" &&
			args != "override set" &&
			args != "bucket release"; !group && !strings.Contains(r.stdout, "  velocityd ") &&
			!strings.Contains(r.stdout, "' velocityd ") {
			t.Errorf("%s --help shows no example:\n%s", args, r.stdout)
		}
	}
	if r := command(nil, nil, "--help"); !strings.Contains(r.stdout, "3 blocked") ||
		!strings.Contains(r.stdout, "4 findings") {
		t.Errorf("--help does not tell the exit codes:\n%s", r.stdout)
	}
	if r := command(nil, nil, "serve", "--help"); !strings.Contains(r.stdout, "$VELOCITY_LOCK_WAIT") ||
		!strings.Contains(r.stdout, "default 1s") {
		t.Errorf("serve --help does not tell variables and defaults:\n%s", r.stdout)
	}
}

func TestHelpNamesAccountsAndCommandsForNewOperator(t *testing.T) {
	t.Parallel()
	for args, wants := range map[string][]string{
		"--help":             {"velocity_admin:", "migrate up", "'velocity:secret@"},
		"dev --help":         {"'outcome'", "'override'", "'bucket'"},
		"migrate --help":     {"triggers", "log_bin_trust_function_creators = 1", "velocity_admin:"},
		"bucket peek --help": {"Usage: velocityd bucket peek <zone> <key>"},
		"replay --help":      {"made NOW"},
	} {
		r := command(nil, nil, strings.Fields(args)...)
		text := strings.Join(strings.Fields(r.stdout), " ") // however it is wrapped
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", args, want, r.stdout)
			}
		}
	}
}
