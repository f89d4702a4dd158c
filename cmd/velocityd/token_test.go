package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

// newToken makes a token by the command, and returns its text.
func newToken(t *testing.T, env environment, args ...string) string {
	t.Helper()
	token := strings.TrimSuffix(must(t, env, append([]string{"token", "create"}, args...)...), "\n")
	if _, ok := access.ParseToken(token); !ok {
		t.Fatalf("token create printed something else than a token and a line end (%d bytes)", len(token))
	}
	return token
}

func TestTokenIsPrintedOnceAndKeptAsDigest(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t)
	r := command(env, nil, "token", "create", "shop", "--scope", "report,check", "--scope", "check", "--zone", "7",
		"--zone", "1,7",
		"--expires", "90d")
	token := strings.TrimSuffix(r.stdout, "\n")
	if _, ok := access.ParseToken(token); r.code != exitSuccess || !ok {
		t.Fatalf("exit code %d, and %d bytes\n%s", r.code, len(r.stdout), r.stderr)
	}
	if strings.Contains(r.stderr, token[8:]) || !strings.Contains(r.stderr, "not shown again") {
		t.Errorf("on standard error: %s", strings.ReplaceAll(r.stderr, token, "(the token)"))
	}
	newToken(t, env, "ann", "--preset", "helpdesk", "--zone", "1")
	if r := command(env, nil, "token", "create", "ann", "--preset", "dba", "--scope", "check"); r.code != exitUsage {
		t.Errorf("scopes beside a preset: exit code %d\n%s", r.code, r.stderr)
	}
	list := must(t, env, "token", "list")
	for _, want := range []string{
		"shop", token[:8] + "...", "check,report", "1,7", "ann", "peek,release,history",
		time.Now().UTC().Add(90 * 24 * time.Hour).Format("2006-01-"), "never", tester,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("token list lacks %q:\n%s", want, list)
		}
	}
	if strings.Contains(list, token[:9]) {
		t.Error("token list shows more than eight characters")
	}
	if n := d.Count(
		t, "SELECT COUNT(*) FROM access_token WHERE digest = UNHEX(SHA2(?, 256)) AND shown = LEFT(?, 8) AND created_by = ?",
		token, token, tester); n != 1 {
		t.Errorf("%d rows have the token's digest, want 1", n)
	}
}

func TestATokenForAFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t)
	path := filepath.Join(t.TempDir(), "shop.token")
	for _, want := range []string{"shop", path + " is there already"} {
		if r := command(env, nil, "token", "create", "shop", "--scope", "check", "--out", path); r.code != exitSuccess ||
			r.stdout != "" ||
			!strings.Contains(r.stderr, want) {
			t.Fatalf("got exit code %d, and %d bytes\n%s", r.code, len(r.stdout), r.stderr)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v (%v), want 0600", info.Mode(), err)
	}
	token := strings.TrimSuffix(string(text), "\n")
	if n := d.Count(t, "SELECT COUNT(*) FROM access_token WHERE digest = UNHEX(SHA2(?, 256))", token); n != 1 {
		t.Errorf("%d rows have the digest of what is in the file, want 1", n)
	}
	for _, args := range [][]string{
		{"token", "create", "other", "--scope", "check", "--out", filepath.Join(filepath.Dir(path), "none", "token")},
		{"token", "create", "other", "--scope", "check", "--client-subject", "CN=a", "--out", path + "2"},
	} {
		if r := command(env, nil, args...); r.code == exitSuccess {
			t.Errorf("%q: got %+v, want an error", args, r)
		}
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM access_token"); n != 1 {
		t.Errorf("%d tokens are live, want 1: a file that cannot be made leaves no token", n)
	}
}

// A subject with parts that programs write in different ways is read from the certificate.
func TestClientCertificateIsKnownBySubjectInFile(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t)
	subject := pkix.Name{
		CommonName: "auth-1", Organization: []string{"José, Inc."}, OrganizationalUnit: []string{"a", "b"},
		ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "auth@example.org"},
		},
	}
	text := handlerstest.NewAuthority(t).IssueTo(t, subject).Cert
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	file := fileOf(t, "auth-1.pem", string(text))
	must(t, env, "token", "create", "auth-1", "--scope", "check", "--client-cert", file)
	var got string
	if err := d.SQL.QueryRow("SELECT subject FROM access_token").Scan(&got); err != nil ||
		got != access.CertificateSubject(cert) ||
		!strings.Contains(got, "OU=a") {
		t.Errorf("registered %q, %v", got, err)
	}
	writeFile(t, file, "no certificate")
	for _, bad := range []string{file, file + ".gone"} {
		if r := command(env, nil, "token", "create", "auth-2", "--scope", "check", "--client-cert",
			bad); r.code != exitUsage ||
			!strings.Contains(r.stderr, "--client-cert") {
			t.Errorf("%s: %+v", bad, r)
		}
	}
}

func TestTokenCommandsRefuseWhatMeansNothing(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"token create shop":                                                    "--scope",
		"token create shop --scope root":                                       "check",
		"token create 7 --scope check":                                         "name must be a letter",
		"token create shop --scope check --zone 0":                             "zones must each be",
		"token create shop --scope check --zone x":                             "--zone",
		"token create shop --scope check --expires yesterday":                  "--expires",
		"token create shop --scope check --expires 2001-01-01":                 "future",
		"token create shop --scope check --client-subject " + "\u00a0":         "subject must not be empty",
		"token create shop --scope check --client-subject " + longText("CN="):  "at most 512",
		"token create shop --scope check --client-subject cn=auth-1,o=Example": "such as CN=auth-1,O=Example",
		"token revoke": "<id-or-name>",
	} {
		words := strings.Split(args, " ")
		if r := command(environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/x"}, nil, words...); r.code != exitUsage ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("%.80s: got %d %s, want %q", args, r.code, r.stderr, want)
		}
	}
}

func longText(start string) string { return start + strings.Repeat("a", access.MaxSubjectLength) }

func TestCommandsTakeServiceTokenFromFileOrVariable(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	direct := environment{"VELOCITY_DSN": d.DSN}
	token := newToken(t, direct, "operator", "--scope", "check,zones,overrides,peek")
	url := start(t, direct, "serve", "--require-auth").url
	path := func(text string) string { return fileOf(t, "token", text) }
	other := access.NewToken().Reveal()
	for name, c := range map[string]struct {
		env  environment
		args string
		code int
		want string
	}{
		"none":                  {environment{}, "zone list", exitError, "prove their identity"},
		"a variable":            {environment{"VELOCITY_TOKEN": token}, "zone list", exitSuccess, "3600 s"},
		"a file":                {environment{}, "zone list --token-file " + path(token+"\n"), exitSuccess, "3600 s"},
		"a file, by a variable": {environment{"VELOCITY_TOKEN_FILE": path(token)}, "zone list", exitSuccess, "3600 s"},
		"the file wins": {
			environment{"VELOCITY_TOKEN": other},
			"zone list --token-file " + path(token), exitSuccess,
			"3600 s",
		},
		"an unknown one": {environment{"VELOCITY_TOKEN": other}, "zone list", exitError, "prove their identity"},
		"no token": {
			environment{"VELOCITY_TOKEN": other[:30]},
			"zone list", exitUsage,
			"VELOCITY_TOKEN does not hold a token",
		},
		"a file of something else": {
			environment{},
			"zone list --token-file " + path("secret\n"), exitUsage,
			"does not hold a token",
		},
		"a huge file": {
			environment{},
			"zone list --token-file " + path(token+strings.Repeat(" ", 70_000)), exitUsage,
			"is longer than",
		},
		"no file": {environment{}, "zone list --token-file /nowhere", exitUsage, "no such file"},
		"a lacking scope": {
			environment{"VELOCITY_TOKEN": token},
			"bucket release 1 alice --reason x", exitError,
			"operator lacks the scope release",
		},
		"a change": {
			environment{"VELOCITY_TOKEN": token},
			"override set 1 bob --action deny --reason x --expires 1h",
			exitSuccess, "bob",
		},
		"a check": {environment{"VELOCITY_TOKEN": token}, "check 1 alice", exitSuccess, "4 of 5 left"},
	} {
		c.env["VELOCITY_URL"] = url
		r := command(c.env, nil, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: got %d %s%s, want %d and %q", name, r.code, r.stdout, r.stderr, c.code, c.want)
		}
		if found := regexp.MustCompile(`vel_[0-9A-Za-z]{5}|secret`).FindString(r.stdout + r.stderr); found != "" {
			t.Errorf("%s: a token was printed", name)
		}
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE principal = 'operator'"); n != 1 {
		t.Errorf("%d changes are recorded under the token's name, want 1", n)
	}
	if r := mustAsk(t, url+"/v1/zones", "", http.StatusUnauthorized); r.header.Get("WWW-Authenticate") == "" {
		t.Error("no challenge")
	}
}

func TestASecretOfAClusterNeedsAPod(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d"}
	pod := environment{
		"VELOCITY_DSN": env["VELOCITY_DSN"], "KUBERNETES_SERVICE_HOST": "127.0.0.1",
		"KUBERNETES_SERVICE_PORT": "1",
	}
	wantMisuse(t, []misuse{
		{"token create a --scope check --out-secret s", env, "in a pod of Kubernetes alone"},
		{"token create a --scope check --out-secret s --out f", env, "leave one out"},
		{"token create a --scope check --out-secret s", pod, "the account of the pod"},
	})
}
