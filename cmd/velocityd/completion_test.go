package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completions asks for the words that may stand in place of the last one.
func completions(t *testing.T, words ...string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(must(t, nil, append([]string{"__complete", "--", "velocityd"}, words...)...)) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		list = append(list, word)
	}
	return list
}

func TestCompletionKnowsCommandsFlagsAndValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words string // up to the cursor; a space at the end begins a word
		want  string
	}{
		{"z", "zone"},
		{"ver", "version"},
		{"__", ""}, // not for people
		{"zone ", "list show set apply delete restore totals lint"},
		{"zone l", "list lint"},
		{"migrate --dsn x ", "up down status roles"},
		{"help zone s", "show set"},
		{"help he", "health help"},
		{"health l", "live"},
		{"completion ", "bash zsh fish"},
		{"outcome ", ""},
		{"outcome 1 ", "success failure"},
		{"outcome --url http://x 1 f", "failure"},
		{"outcome 1 success ", ""},
		{"zone set --ro", ""},
		{"zone set --reset", "--reset-on-success"},
		{"zone set 1 --no-r", "--no-reset-on-success"},
		{"migrate down --s", "--steps"},
		{"dev --engine mariadb-", "mariadb-10.11 mariadb-11.8"},
		{"dev --engine=mysq", "--engine=mysql"},
		{"dev --engine = mysq", "mysql"}, // as bash has it
		{"dev --engine =", "auto mariadb mysql mariadb-10.11 mariadb-11.8"},
		{"serve --access-log --coalesce o", "on off"},
		{"serve --log-level ", "debug info warn error"},
		{"serve --nonsense=", ""},
		{"serve --listen ", ""},
		{"override set 1 alice --action d", "deny"},
		{"check 1 -- --", ""},
		{"check 1 zone ", ""},
		{"replay ", ""},
	} {
		words := strings.Split(c.words, " ")
		got := completions(t, words...)
		want := strings.Fields(c.want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", c.words, got, want)
		}
	}
	want := []string{
		"--dsn", "--dsn-file", "--db-tls-ca", "--db-tls-cert", "--db-tls-key", "--drain-delay",
		"--degraded-after",
	}
	if got := completions(t, "serve", "--d"); !slices.Equal(got, want) {
		t.Errorf("serve --d: got %q", got)
	}
	if got := completions(t, "dev", "--ds"); len(got) != 0 {
		t.Errorf("dev tells of hidden flags: %q", got)
	}
	if r := command(nil, nil, "__complete"); r.code != exitSuccess || r.stdout != "" {
		t.Errorf("without words: %+v", r)
	}
}

// inShell runs text in a shell to which velocityd is this program.
func inShell(t *testing.T, shell, text string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(folder, "velocityd")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", text)
	cmd.Env = append(os.Environ(), asProgram+"=1", "HOME="+folder, "PATH="+folder+string(os.PathListSeparator)+
		os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestBashCompletesByTheScript(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"velocityd zone ''":             "list show set apply delete restore totals lint",
		"velocityd zo":                  "zone",
		"velocityd override set --act":  "--action",
		"velocityd serve --log-level w": "warn",
		"velocityd dev --engine = my":   "mysql",
		"velocityd check 1 ''":          "",
		"'~/velocityd' outcome 1 s":     "success",
	} {
		got := inShell(t, "bash", `source <(velocityd completion bash)
complete -p velocityd >/dev/null || exit 1
COMP_WORDS=(`+words+`)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_velocityd
echo "${COMPREPLY[*]}"`)
		if got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

func TestFishCompletesByTheScript(t *testing.T) {
	t.Parallel()
	got := inShell(t, "fish", "velocityd completion fish | source; complete -C 'velocityd zone l'")
	if got = "\n" + got; strings.Count(got, "\n") != 2 || !strings.Contains(got, "\nlist\t") ||
		!strings.Contains(got, "\nlint\t") {
		t.Errorf("got %q", got)
	}
}

func TestZshReadsTheScript(t *testing.T) {
	t.Parallel()
	got := inShell(t, "zsh", `compdef() { print -r -- $* }
source <(velocityd completion zsh)
compadd() { print -r -- "${(j: :)candidates}" }
words=(velocityd zone l) CURRENT=3
_velocityd`)
	if got != "_velocityd velocityd\nlist lint" {
		t.Errorf("got %q", got)
	}
}

func TestScriptsAskTheProgramAndRegisterThemselves(t *testing.T) {
	t.Parallel()
	for shell, wants := range map[string][]string{
		"bash": {"__complete -- ", "complete -o default -F _velocityd velocityd"},
		"zsh":  {"__complete -- ", "#compdef velocityd", "compdef _velocityd velocityd", "compadd "},
		"fish": {"__complete -- ", "complete -c velocityd -f -a '(__velocityd_complete)'"},
	} {
		script := must(t, nil, "completion", shell)
		for _, want := range wants {
			if !strings.Contains(script, want) {
				t.Errorf("%s lacks %q:\n%s", shell, want, script)
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if open, closed := strings.Count(script, pair[:1]), strings.Count(script, pair[1:]); open != closed {
				t.Errorf("%s has %d %c and %d %c", shell, open, pair[0], closed, pair[1])
			}
		}
	}
}
