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

	"velocityd/tools/enginetest"
)

// TestTheClientsOfOtherLanguagesKeepTheirClaims runs the tests of client/python and client/typescript against a real
// service and the faults in front of it. The ids of its txns are above 2^53.
func TestTheClientsOfOtherLanguagesKeepTheirClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.First(t), buildProgram(t), "docs/clients.md",
		[]block{{language: "sh", text: "velocityd serve"}})
	enginetest.Exec(t, w.session("root"), "ALTER TABLE "+w.Database+".zone_txn AUTO_INCREMENT = 9007199254740993")
	w.must("sh", `velocityd zone set 3 --rate 1000 --window 1h --counts failures --description 'of the claims'
velocityd zone set 4 --rate 0 --window 1h --description 'full'
velocityd token create clients --scope check,report,peek,release >token
VELOCITY_DSN='velocity:`+w.secrets["velocity"]+"@"+printedServer+`/velocityd' velocityd serve --require-auth --listen `+printedService+`
`)
	token, err := os.ReadFile(filepath.Join(w.folder, "token"))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := filepath.Abs("../client/testdata/claims.json")
	if err != nil {
		t.Fatal(err)
	}
	environ := func(t *testing.T) []string {
		plain, encrypted, ca := startFront(t, "http://"+w.Address)
		return append(os.Environ(), "VELOCITY_URL=http://"+w.Address, "VELOCITY_FRONT="+plain,
			"VELOCITY_TLS="+encrypted, "VELOCITY_CA="+ca, "NODE_EXTRA_CA_CERTS="+ca,
			"VELOCITY_TOKEN="+strings.TrimSpace(string(token)), "VELOCITY_CLAIMS="+claims, "PYTHONDONTWRITEBYTECODE=1")
	}
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		testPython(t, environ(t))
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		testTypeScript(t, environ(t))
	})
}

// testPython installs the wheel, and then the folder, each in a separate environment, and runs the tests on the
// wheel's.
func testPython(t *testing.T, environ []string) {
	dist := packed(t)
	for _, from := range []string{filepath.Join(dist, "velocityd-0.2.0-py3-none-any.whl"), "../client/python"} {
		folder := filepath.Join(t.TempDir(), "venv")
		runIn(t, ".", environ, "python3", "-m", "venv", folder)
		python := filepath.Join(folder, "bin", "python")
		runIn(t, ".", environ, python, "-m", "pip", "install", "--quiet", "--no-index", from)
		if strings.HasSuffix(from, ".whl") {
			runIn(t, "../client/python/tests", environ, python, "-W", "ignore::ResourceWarning", "-m", "unittest",
				"test_velocityd")
			django, err := exec.CommandContext(t.Context(), "../tools/django.sh").Output()
			if err != nil && os.Getenv("CI") != "true" {
				t.Logf("without Django: %v", err)
				continue
			}
			environ := append(environ, "PYTHONPATH="+strings.TrimSpace(string(django)))
			runIn(t, "../client/python/tests", environ, python, "-W", "ignore", "-m", "unittest", "test_django")
		} else {
			runIn(t, t.TempDir(), environ, python, "-c", "import velocityd, velocityd.wsgi; velocityd.AsyncClient")
		}
	}
}

// testTypeScript installs the package, runs the tests on it, and compiles a program that uses it.
func testTypeScript(t *testing.T, environ []string) {
	dist := packed(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	runIn(t, folder, environ, "npm", "install", "--silent", "--offline", "--no-audit", "--no-fund",
		filepath.Join(dist, "velocityd-node-0.2.0.tgz"))
	tools, err := filepath.Abs("../tools/typescript/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"express", "@types"} {
		err = cmp.Or(err, os.Symlink(filepath.Join(tools, name), filepath.Join(folder, "node_modules", name)))
	}
	for _, name := range []string{"velocityd.test.mjs", "consumer.ts"} {
		text, readErr := os.ReadFile("../client/typescript/" + name)
		err = cmp.Or(err, readErr, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	if err := cmp.Or(
		err, os.WriteFile(filepath.Join(folder, "tsconfig.json"), []byte(`{"compilerOptions": {"strict": true, "noEmit": true,
"target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"]}, "files": ["consumer.ts"]}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	runIn(t, folder, environ, filepath.Join(tools, ".bin", "tsc"), "-p", folder)
	runIn(t, folder, environ, "node", "--test", "--test-reporter=spec", "--test-timeout=60000")
}

// runIn runs a program in a folder.
func runIn(t *testing.T, folder string, environ []string, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = folder, environ
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// errLeftOut says that there is nothing to run or to pack the clients with, and that CI is not true.
var errLeftOut = errors.New("left out")

// pack makes the packages of the clients, once for all tests, as `make package` does, and returns the folder that has
// them.
var pack = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // see above
	if err := cmp.Or(leftOut("python3"), leftOut("node"), leftOut("npm")); err != nil {
		return "", fmt.Errorf("%w: %w", errLeftOut, err)
	}
	if out, err := exec.Command("../tools/typescript/tsc.sh", "--version").CombinedOutput(); err != nil &&
		os.Getenv("CI") != "true" {
		return "", fmt.Errorf("%w: install the compiler: %w\n%s", errLeftOut, err, out)
	}
	dist, work := filepath.Join(packFolder(), "dist"), filepath.Join(packFolder(), "work")
	if err := cmp.Or(os.MkdirAll(dist, 0o700), os.MkdirAll(work, 0o700)); err != nil {
		return "", err
	}
	command := exec.Command("tools/package/parts/60-clients.sh")
	command.Dir, command.Env = "..", append(os.Environ(), "OUT="+dist, "WORK="+work)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pack the clients: %w\n%s", err, out)
	}
	return dist, nil
})

// packFolder is where pack works. TestMain removes it.
func packFolder() string { return filepath.Join(programFolder(), "clients") }

// packed returns the folder with the packages of the clients.
func packed(t *testing.T) string {
	t.Helper()
	dist, err := pack()
	if errors.Is(err, errLeftOut) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return dist
}

// installPackage unpacks the package for JavaScript into a folder, as npm does.
func installPackage(folder string) error {
	dist, err := pack()
	if err != nil {
		return err
	}
	target := filepath.Join(folder, "node_modules", "velocityd")
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	return exec.Command("tar", "-xzf", filepath.Join(dist, "velocityd-node-0.2.0.tgz"), "-C", target,
		"--strip-components=1").Run()
}

func TestTheClientsHaveTheVersionOfTheRelease(t *testing.T) {
	t.Parallel()
	for file, form := range map[string]string{
		"cmd/velocityd/version.go": `release = "%s"`, "client/python/pyproject.toml": `version = "%s"`,
		"client/python/velocityd/__init__.py": `__version__ = "%s"`, "client/typescript/package.json": `"version": "%s"`,
	} {
		if want := fmt.Sprintf(form, "0.2.0"); !strings.Contains(readPage(t, file), want) {
			t.Errorf("%s lacks %s", file, want)
		}
	}
}
