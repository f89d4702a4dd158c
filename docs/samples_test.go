package docs_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// sample is a program in examples that the compiler of Go does not check.
type sample struct {
	file  string
	args  []string
	use   string // the line behind which it is used
	open  string // fails open
	drive string // asks about each of NAMES, reports, and prints what it was told
}

func samples() []sample {
	return []sample{
		{"python/login.py", []string{"python3", "-"}, "# Use:", "FAIL_OPEN = True\n", `
BUDGET, EACH = 1.5, 0.3
for name in NAMES:
    allowed, txn = may_try(name, "fe80::1%eth0")
    print("RESULT", "allowed" if allowed else "refused", "no txn" if txn is None else "a txn", flush=True)
    report(txn, True)
`},
		{"node/login.mjs", []string{"node", "--input-type=module", "-"}, "// Use:", "policy.failOpen = true;\n", `
Object.assign(policy, { budget: 1500, each: 300 });
for (const name of NAMES) {
  const { allowed, txn } = await mayTry(name, 'fe80::1%eth0');
  console.log('RESULT', allowed ? 'allowed' : 'refused', txn === undefined ? 'no txn' : 'a txn');
  await report(txn, true);
}
`},
	}
}

// run runs the sample against a service, and returns for each name what it was told, and before that what was logged.
func (s sample) run(t *testing.T, url string, failOpen bool, names []string) (told, logged []string) {
	t.Helper()
	if err := leftOut(s.args[0]); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("../examples/" + s.file)
	if err != nil {
		t.Fatal(err)
	}
	program, _, found := strings.Cut(string(text), s.use)
	list, err := json.Marshal(names)
	if err != nil || !found {
		t.Fatalf("%s: no line %q (%v)", s.file, s.use, err)
	}
	if failOpen {
		program += s.open
	}
	command := exec.CommandContext(t.Context(), s.args[0], s.args[1:]...)
	command.Env = append(command.Environ(), "VELOCITY_URL="+url, "VELOCITY_TOKEN=vel_1")
	command.Stdin = strings.NewReader(program + strings.Replace(s.drive, "NAMES", string(list), 1))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log := ""
	for line := range strings.Lines(string(out)) {
		if result, ok := strings.CutPrefix(line, "RESULT "); ok {
			told, logged, log = append(told, strings.TrimSpace(result)), append(logged, log), ""
			continue
		}
		log += line
	}
	if len(told) != len(names) || log != "" {
		t.Fatalf("%d of %d names\n%s", len(told), len(names), out)
	}
	return told, logged
}

// startFake starts the service that behaves as the user's name says, and returns its URL.
func startFake(t *testing.T) string {
	t.Helper()
	if err := leftOut("python3"); err != nil {
		t.Skip(err)
	}
	command := exec.CommandContext(t.Context(), "python3", "../examples/fake/fake.py", "0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // the test's context has ended it
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

func TestTheSamplesLetThePolicyDecideAndHideNoFaultBehindAWrongPassword(t *testing.T) {
	t.Parallel()
	const quiet, loud = "has not answered", "refuses our calls"
	cases := []struct {
		user, closed, open, log string
	}{
		{"alice", "allowed a txn", "allowed a txn", ""},
		{"blocked", "refused no txn", "refused no txn", ""},
		{"degraded", "allowed no txn", "allowed no txn", ""},
		{"busy-once", "allowed a txn", "allowed a txn", ""},
		{"busy", "refused no txn", "allowed no txn", quiet},
		{"undecided", "refused no txn", "allowed no txn", quiet},
		{"broken", "refused no txn", "allowed no txn", quiet},
		{"slow", "refused no txn", "allowed no txn", quiet},
		{"cut", "refused no txn", "allowed no txn", quiet},
		{"invalid", "refused no txn", "allowed no txn", loud},
		{"no-token", "refused no txn", "allowed no txn", loud},
		{"no-zone", "refused no txn", "allowed no txn", loud},
		{"nonsense", "refused no txn", "allowed no txn", loud},
		{"", "refused no txn", "refused no txn", ""}, // no account can have these names
		{" \u3000", "refused no txn", "refused no txn", ""},
		{"a\x00b", "refused no txn", "refused no txn", ""},
		{strings.Repeat("x", 300), "refused no txn", "refused no txn", ""},
		{strings.Repeat("\ufdfa", 20), "refused no txn", "refused no txn", ""}, // 360 characters once it is spelt out
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.user)
	}
	for _, s := range samples() {
		for _, failOpen := range []bool{false, true} {
			t.Run(s.file, func(t *testing.T) {
				t.Parallel()
				told, logged := s.run(t, startFake(t), failOpen, names)
				for i, c := range cases {
					want := c.closed
					if failOpen {
						want = c.open
					}
					if told[i] != want {
						t.Errorf("%.20q, fail open %t: %s, want %s", c.user, failOpen, told[i], want)
					}
					if !strings.Contains(logged[i], c.log) || (c.log == "") != (logged[i] == "") {
						t.Errorf("%.20q: the log says %q, want %q", c.user, logged[i], c.log)
					}
				}
			})
		}
	}
}
