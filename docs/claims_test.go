package docs_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"velocityd/db/dbtest"
)

// TestTheClientsOfOtherLanguagesKeepTheirClaims runs the tests of clients/python and clients/typescript against a real service and the
// faults in front of it. The ids of its txns are above 2^53.
func TestTheClientsOfOtherLanguagesKeepTheirClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.First(t), buildProgram(t), "docs/clients.md", []block{{language: "sh", text: "velocityd serve"}})
	dbtest.Exec(t, w.session("root"), "ALTER TABLE "+w.Database+".zone_txn AUTO_INCREMENT = 9007199254740993")
	w.must("sh", `velocityd zone set 3 --rate 1000 --window 1h --counts failures --description 'of the claims'
velocityd zone set 4 --rate 0 --window 1h --description 'full'
velocityd token create clients --scope check,report,peek,release >token
VELOCITY_DSN='velocity:`+w.secrets["velocity"]+"@"+printedServer+`/velocityd' velocityd serve --require-auth --listen `+printedService+`
`)
	token, err := os.ReadFile(filepath.Join(w.folder, "token"))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := filepath.Abs("../clients/claims.json")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, folder, name string, args ...string) {
		t.Helper()
		if err := leftOut(name); err != nil {
			t.Skip(err)
		}
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = folder
		plain, encrypted, ca := startFront(t, "http://"+w.Address)
		command.Env = append(command.Environ(), "VELOCITY_URL=http://"+w.Address, "VELOCITY_FRONT="+plain,
			"VELOCITY_TLS="+encrypted, "VELOCITY_CA="+ca, "NODE_EXTRA_CA_CERTS="+ca,
			"VELOCITY_TOKEN="+strings.TrimSpace(string(token)), "VELOCITY_CLAIMS="+claims, "PYTHONDONTWRITEBYTECODE=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		run(t, "../clients/python", "python3", "-W", "ignore::ResourceWarning", "-m", "unittest")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		err := writeClient(folder)
		if errors.Is(err, errLeftOut) {
			t.Skip(err)
		}
		test, readErr := os.ReadFile("../clients/typescript/velocityd.test.mjs")
		err = cmp.Or(err, readErr, os.WriteFile(filepath.Join(folder, "velocityd.test.mjs"), test, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		run(t, folder, "node", "--test", "--test-reporter=spec")
	})
}

// errLeftOut says that there is nothing to run JavaScript or to compile TypeScript with, and that CI is not true.
var errLeftOut = errors.New("left out")

// compiled returns clients/typescript as JavaScript. It is compiled once, as strictly as its readers may want it, and as runtimes want it
// that only strip types.
var compiled = sync.OnceValues(func() ([]byte, error) { //nolint:gochecknoglobals // for all pages
	const compiler = "../tools/typescript/tsc.sh"
	if err := cmp.Or(leftOut("node"), leftOut("npm")); err != nil {
		return nil, fmt.Errorf("%w: %w", errLeftOut, err)
	}
	if out, err := exec.Command(compiler, "--version").CombinedOutput(); err != nil && os.Getenv("CI") != "true" {
		return nil, fmt.Errorf("%w: install the compiler: %w\n%s", errLeftOut, err, out)
	}
	folder, err := os.MkdirTemp("", "typescript")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	out, err := exec.Command(compiler, "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noUnusedLocals",
		"--erasableSyntaxOnly", "--target", "es2022", "--module", "esnext", "--lib", "es2022,dom", "--outDir", folder,
		"../clients/typescript/velocityd.ts").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compile: %w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(folder, "velocityd.js"))
})

// writeClient puts the client in TypeScript into a folder, as the module velocityd.js.
func writeClient(folder string) error {
	text, err := compiled()
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(folder, "velocityd.js"), text, 0o600)
	return cmp.Or(err, os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`), 0o600))
}
