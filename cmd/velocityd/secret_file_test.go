package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestEverySecretsFileReadableByOthersIsRefused knows each flag by its name: a new one gets a command here.
func TestEverySecretsFileReadableByOthersIsRefused(t *testing.T) {
	t.Parallel()
	const dsn = "u:p@tcp(127.0.0.1:1)/d"
	folder := t.TempDir()
	file := filepath.Join(folder, "open")
	cert, key := filepath.Join(folder, "cert"), filepath.Join(folder, "key-1")
	for _, path := range []string{file, cert, key} {
		if err := os.WriteFile(path, []byte(strings.Repeat("0f", 32)+"\n"), 0o644); err != nil { //nolint:gosec // this is to be refused
			t.Fatal(err)
		}
	}
	commands := map[string]string{
		"dsn-file":         "check 1 alice --dsn-file " + file,
		"db-tls-key":       "check 1 alice --dsn " + dsn + " --db-tls-cert " + cert + " --db-tls-key " + file,
		"tls-key":          "serve --dsn " + dsn + " --tls-cert " + cert + " --tls-key " + file,
		"console-key-file": "serve --dsn " + dsn + " --console-key-file " + file,
		"key-hmac-file":    "serve --dsn " + dsn + " --key-hmac-file " + folder,
		"token-file":       "check 1 alice --url http://127.0.0.1:1 --token-file " + file,
	}
	parser := parserOf(t, &cli{}, environment{})
	isSecret := regexp.MustCompile(`(^|-)(dsn|key|token|secret|password|hmac)-(file|key)$|-key$`)
	if err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, isFlag := node.(*kong.Flag); isFlag && isSecret.MatchString(flag.Name) && commands[flag.Name] == "" {
			t.Errorf("--%s names a file of secrets: try it here", flag.Name)
		}
		return next(nil)
	}); err != nil {
		t.Fatal(err)
	}
	for flag, args := range commands {
		if r := command(environment{}, nil, strings.Fields(args)...); r.code == 0 ||
			!strings.Contains(r.stderr, "run 'chmod o=' on it") {
			t.Errorf("--%s: exit code %d\n%s", flag, r.code, r.stderr)
		}
	}
}
