package docs_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

// The page that makes accounts. Others use them as it has granted them.
const grantingPage = "docs/install.md"

// The pages' names of the service and the database's server.
const (
	printedService = "127.0.0.1:8080"
	printedServer  = "tcp(db.example:3306)"
)

// Names stand in for those that the pages give the database and its accounts,
// because many pages share one server.
type Names struct {
	Database string
	Suffix   string
	Socket   string
	Address  string // of the service
}

// rename returns SQL of a page with the names in it.
func (n Names) rename(text string) string {
	text = regexp.MustCompile(`\bvelocityd\b`).ReplaceAllString(text, n.Database)
	return regexp.MustCompile(`'([a-z_]+)'@'%'`).ReplaceAllString(text, "'${1}"+n.Suffix+"'@'%'")
}

// printedRoot is how the pages reach the database as an administrator of the server, whose
// real account has another name and no password.
const printedRoot = "root:root-password@" + printedServer + "/velocityd"

// renameCode returns a page's shell or program with the names in it.
func (n Names) renameCode(text string) string {
	text = strings.ReplaceAll(text, printedRoot, "root@unix("+n.Socket+")/"+n.Database)
	text = regexp.MustCompile(`(--(?:service|analyst|dba|auditor) [a-z_]+)\b`).ReplaceAllString(text, "${1}"+n.Suffix)
	text = regexp.MustCompile(`([a-z_]+):([^:@'\s]+)@tcp\(db\.example:3306\)/velocityd\b`).
		ReplaceAllString(text, "${1}"+n.Suffix+":${2}@unix("+n.Socket+")/"+n.Database)
	return strings.NewReplacer(printedService, n.Address, "0.0.0.0:8080", n.Address).Replace(text)
}

// world is what the blocks of one page are run in: a database on a server that
// other pages share, the page's accounts, a folder, and a service.
type world struct {
	Names
	t       *testing.T
	engine  string
	root    string // DSN
	folder  string
	short   string               // another folder, whose path leaves room for a socket's name
	conns   map[string]*sql.Conn // by account
	secrets map[string]string    // passwords by account
	printed string               // by the last block that ran a command
}

// newWorld makes the world of a page. A page that makes the database itself finds
// none; any other finds a migrated one with the two demo zones and the accounts of
// the granting page. A page that does not start the service itself finds it
// running.
func newWorld(t *testing.T, engine *enginetest.Engine, program, page string, blocks []block) *world {
	t.Helper()
	base := serverOf(t, engine, page)
	cfg, err := mysql.ParseDSN(base.DSN)
	if err != nil || cfg.Net != "unix" {
		t.Skip("needs the socket of a private server")
	}
	w := &world{
		t: t, engine: engine.Name, root: base.DSN, folder: t.TempDir(),
		conns: map[string]*sql.Conn{}, secrets: map[string]string{},
		Names: Names{
			Database: cfg.DBName, Suffix: "_" + strings.ToLower(rand.Text()[:6]), Socket: cfg.Addr,
			Address: fmt.Sprintf("127.0.0.1:%d", enginetest.FreePort(t)),
		},
	}
	if w.short, err = os.MkdirTemp("", "v"); err != nil { //nolint:usetesting // the path of t.TempDir is too long for a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.short) })
	w.install(program)
	t.Cleanup(w.stopProcesses)
	if page == grantingPage {
		enginetest.Exec(t, base.SQL, "DROP DATABASE "+w.Database)
		w.readSecrets(blocks)
	} else {
		w.readSecrets(pageBlocks(t, grantingPage))
		enginetest.Migrate(t, base.DSN)
		w.grant()
		enginetest.Exec(t, base.SQL, "INSERT INTO zone_master (id, description, rate, `window`, counts, key_kind) "+
			"VALUES (1, 'login per user', 5, 60, 'failures', 'opaque'), (2, 'login per address', 20, 60, 'attempts', 'ip')")
		w.announce()
	}
	starts := func(b block) bool {
		return regexp.MustCompile(`(?m)velocityd serve( .*)?$`).MatchString(b.text) && b.language == "sh"
	}
	if page != grantingPage && !slices.ContainsFunc(blocks, starts) {
		w.must("sh", "VELOCITY_DSN='velocity:"+w.secrets["velocity"]+"@"+printedServer+"/velocityd' velocityd serve "+
			"--listen "+printedService+"\n")
	}
	return w
}

// serverOf returns an empty database. That of the granting page, which sets variables of its server for all sessions,
// is on a server of the page alone.
func serverOf(t *testing.T, engine *enginetest.Engine, page string) *enginetest.Database {
	t.Helper()
	if page == grantingPage {
		return enginetest.Empty(t, enginetest.AdminDSN(engine.Private(t, t.TempDir()), ""))
	}
	return engine.Empty(t)
}

// readSecrets learns the passwords of the accounts that the granting page makes,
// and has the accounts dropped at the test's end.
func (w *world) readSecrets(blocks []block) {
	w.t.Helper()
	for _, b := range blocks {
		for _, user := range regexp.MustCompile(`CREATE USER IF NOT EXISTS '([a-z_]+)'@'%' IDENTIFIED BY '([^']+)'`).FindAllStringSubmatch(
			b.text, -1) {
			w.secrets[user[1]] = user[2]
		}
	}
	if len(w.secrets) == 0 {
		w.t.Fatalf("%s makes no account", grantingPage)
	}
	w.t.Cleanup(func() {
		for account := range w.secrets {
			_, _ = w.session("root").ExecContext(context.Background(), w.rename("DROP USER IF EXISTS '"+account+"'@'%'"))
		}
	})
}

// grant makes the accounts, and gives them their rights, as the granting page has
// it.
func (w *world) grant() {
	w.t.Helper()
	for _, b := range pageBlocks(w.t, grantingPage) {
		if b.language == "sh" {
			for line := range strings.Lines(b.text) {
				if strings.HasPrefix(line, "velocityd migrate roles ") {
					w.must("sh", "VELOCITY_DSN='"+printedRoot+"' "+line)
				}
			}
		}
		if b.language != "sql" {
			continue
		}
		for _, s := range statements(b.text) {
			if strings.HasPrefix(s.text, "CREATE USER ") || strings.HasPrefix(s.text, "GRANT ") {
				if err := query(w.t.Context(), w.session("root"), w.rename(s.text), io.Discard, false); err != nil {
					w.t.Fatalf("%s: %v", b.at(s.line), err)
				}
			}
		}
	}
}

// TestTheOwnerIsGrantedWhatItNeeds holds the two lists of rights that the program cannot grant by itself against the
// program's: that of the page, and that of the compose file's secrets.
func TestTheOwnerIsGrantedWhatItNeeds(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(slices.Values(roles.Rights(migrations.MySQL, roles.Owner)[0].Privileges))
	for _, file := range []string{grantingPage, "deploy/containers/secrets.sh"} {
		found := regexp.MustCompile(`GRANT ([A-Z, \n]*)\sON velocityd\.\* TO 'velocity_admin'@'%';`).FindStringSubmatch(
			readPage(t, file))
		if found == nil {
			t.Errorf("%s grants the owner nothing", file)
			continue
		}
		got := regexp.MustCompile(`,\s+`).Split(strings.TrimSpace(found[1]), -1)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: grants %q, want %q", file, got, want)
		}
	}
}

// launcher is velocityd as the page's lines find it. 'velocityd serve' goes on in
// the background, as it does in another terminal; everything else becomes the program
// itself, so that a page's line can stop it.
const launcher = `#!/usr/bin/env bash
if [ "${1-}" = serve ] && [[ " $* " != *" --help "* ]]; then
  PROGRAM "$@" </dev/null >>"$WORLD/serve.log" 2>&1 3>&- 4>&- &
  echo $! >>"$WORLD/pids"
else
  exec PROGRAM "$@"
fi
`

// install makes the folder of programs that the page's lines run.
func (w *world) install(program string) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	bin := filepath.Join(w.folder, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"mysql", "mariadb"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			w.t.Fatal(err)
		}
	}
	deploy, err := filepath.Abs("../deploy")
	if err == nil {
		err = os.Symlink(deploy, filepath.Join(w.folder, "deploy"))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	script := strings.Replace(launcher, "PROGRAM", "'"+program+"'", 2)
	if err := os.WriteFile(filepath.Join(bin, "velocityd"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		w.t.Fatal(err)
	}
}

// announce leaves the database's DSN where commands look for that of a running
// 'velocityd dev'.
func (w *world) announce() {
	w.t.Helper()
	folder := filepath.Join(w.folder, ".local", "share", "velocityd")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "dsn"), []byte(w.root+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// dsn is how an account reaches the database.
func (w *world) dsn(account string) string {
	if account == "root" {
		return w.root
	}
	cfg, _ := mysql.ParseDSN(w.root)
	cfg.User, cfg.Passwd = account+w.Suffix, w.secrets[account]
	return cfg.FormatDSN()
}

// session returns the one connection that an account has for the page, so that
// what a block sets another one finds.
func (w *world) session(account string) *sql.Conn {
	w.t.Helper()
	if conn := w.conns[account]; conn != nil {
		return conn
	}
	dsn := w.dsn(account)
	if account == "root" {
		dsn = strings.Replace(dsn, "/"+w.Database, "/", 1) // which the page may not have made yet
	}
	pool, err := sql.Open("mysql", dsn)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = pool.Close() })
	conn, err := pool.Conn(context.Background())
	if err != nil {
		w.t.Fatalf("log in as %s: %v", account, err)
	}
	w.conns[account] = conn
	return conn
}

// environ is the environment of the page's commands: nothing of this process's
// but where programs and Go's files are.
func (w *world) environ() []string {
	setup := clientSetup{Names: w.Names, DSN: map[string]string{"root": w.root}}
	for account := range w.secrets {
		setup.DSN[account] = w.dsn(account)
	}
	text, _ := json.Marshal(setup)
	python, err := filepath.Abs("../client/python")
	if err != nil {
		w.t.Fatal(err)
	}
	env := []string{
		asClient + "=" + string(text), "HOME=" + w.folder, "TMPDIR=" + w.short, "WORLD=" + w.folder,
		"VELOCITY_ENGINE=" + w.engine, "PATH=" + filepath.Join(w.folder, "bin") + ":" + os.Getenv("PATH"),
		"GOPROXY=off", "GOFLAGS=-mod=readonly", "PYTHONPATH=" + python, "PYTHONDONTWRITEBYTECODE=1",
	}
	if cache := os.Getenv("VELOCITY_CACHE"); cache != "" {
		env = append(env, "VELOCITY_CACHE="+cache)
	} else if cache, err := os.UserCacheDir(); err == nil {
		env = append(env, "VELOCITY_CACHE="+filepath.Join(cache, "velocityd"))
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOROOT"} {
		value, err := exec.CommandContext(w.t.Context(), "go", "env", name).Output()
		if err != nil {
			w.t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return env
}

// stopProcesses ends what the page's lines have left running.
func (w *world) stopProcesses() {
	text, _ := os.ReadFile(filepath.Join(w.folder, "pids"))
	for _, pid := range strings.Fields(string(text)) {
		_ = exec.Command("kill", "-9", pid).Run()
	}
	if w.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(w.folder, "serve.log"))
		w.t.Logf("the service's log:\n%s", log)
	}
}

// awaitService waits until the page's service is ready, which a page's line that
// starts it does not.
func (w *world) awaitService() {
	w.t.Helper()
	if _, err := os.Stat(filepath.Join(w.folder, "pids")); err != nil {
		return
	}
	enginetest.Eventually(w.t, "the page's service is ready", func() bool {
		request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.Address+"/readyz", http.NoBody)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}
