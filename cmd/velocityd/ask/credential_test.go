package ask

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDSNIsReadFromFileOrCredential(t *testing.T) {
	t.Parallel()
	const dsn, other = "u:p@tcp(127.0.0.1:1)/file", "u:p@tcp(127.0.0.1:1)/other"
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	for path, text := range map[string]string{file: dsn + "\n", filepath.Join(folder, CredentialName): other + "\r\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		flags DSNFlags
		want  string
	}{
		"nothing":                          {DSNFlags{}, ""},
		"the flag":                         {DSNFlags{DSN: dsn}, dsn},
		"the file":                         {DSNFlags{DSNFile: file}, dsn},
		"the credential":                   {DSNFlags{credentials: folder}, other},
		"the flag before the credential":   {DSNFlags{DSN: dsn, credentials: folder}, dsn},
		"the file before the credential":   {DSNFlags{DSNFile: file, credentials: folder}, dsn},
		"a folder without that credential": {DSNFlags{credentials: t.TempDir()}, ""},
		"a folder that is not there":       {DSNFlags{credentials: filepath.Join(folder, "absent")}, ""},
	} {
		if got, err := c.flags.Configured(); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}
