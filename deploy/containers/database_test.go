//go:build packages

package containers_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/db/localdb"
	"velocityd/tools/enginetest"
)

// database is a real server at port 3306, and the folders of secrets.sh, which has made its accounts.
type database struct{ folder string }

// startDatabase starts a server of a kind, as the compose file's image of MariaDB would be.
func startDatabase(t *testing.T, kind localdb.Engine, args ...string) database {
	t.Helper()
	d := newSecrets(t)
	args = append([]string{
		"--skip-networking=0", "--bind-address=127.0.0.1", "--port=3306", "--skip-log-bin",
		"--loose-caching-sha2-password-auto-generate-rsa-keys=ON", // for passwords without TLS, on MySQL
	}, args...)
	server := enginetest.Private(t, kind, filepath.Join(t.TempDir(), "data"), args...)
	admin, err := sql.Open("mysql", enginetest.AdminDSN(server, "")+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	enginetest.Exec(t, admin, d.read(t, "init/accounts.sql"))
	// As the image does at its first start.
	enginetest.Exec(t, admin, "CREATE USER 'root'@'%' IDENTIFIED BY '"+d.read(t, "init/root-password")+"'")
	enginetest.Exec(t, admin, "GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION")
	return d
}

// newSecrets makes the folders of a database that does not run.
func newSecrets(t *testing.T) database {
	t.Helper()
	d := database{folder: t.TempDir()}
	for _, volume := range []string{"init", "owner", "service", "callers"} {
		if err := os.Mkdir(filepath.Join(d.folder, volume), 0o755); err != nil { //nolint:gosec // a volume
			t.Fatal(err)
		}
	}
	d.makeSecrets(t)
	return d
}

// makeSecrets runs secrets.sh as the compose file does, and returns its output.
func (d database) makeSecrets(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "secrets.sh", d.folder, "mariadb:3306").CombinedOutput()
	if err != nil {
		t.Fatalf("secrets.sh: %v\n%s", err, out)
	}
	return string(out)
}

// volume returns a folder of secrets.sh as a mount.
func (d database) volume(name, place string, isWritable bool) mount {
	return mount{filepath.Join(d.folder, name), place, isWritable}
}

func (d database) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// prepare migrates, gives the service its rights, makes two zones and a token of these scopes, all by the image, and
// returns the token.
func (d database) prepare(t *testing.T, i image, scopes string) string {
	t.Helper()
	owner := i.container(t, d.volume("owner", "/run/secrets", false), d.volume("callers", "/run/callers", true))
	for _, command := range []string{
		"migrate up",
		"migrate roles --service velocity --yes --dsn-file /run/secrets/root-dsn",
		"zone set 1 --rate 5 --window 60s",
		"zone set 2 --rate 20 --window 60s --key-kind ip",
		"token create auth-server --scope " + scopes + " --out /run/callers/auth-server.token",
	} {
		owner.must(t, append(i.Config.Entrypoint, strings.Fields(command)...)...)
	}
	return strings.TrimSpace(d.read(t, "callers/auth-server.token"))
}

// must is run for a command that has to succeed.
func (c container) must(t *testing.T, args ...string) string {
	t.Helper()
	printed, code := c.run(t, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, printed)
	}
	return printed
}
