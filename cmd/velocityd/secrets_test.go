package main

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"velocityd/db/localdb"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// The clear keys and the password of TestNothingThatIsWrittenHoldsASecret. Each is a word that
// nothing else holds.
const (
	hiddenUser    = "quirinusvogelsang"
	hiddenAddress = "198.51.100.237"
	hiddenIPv6    = "2001:db8:7a69:4e21::beef"
	hiddenWord    = "Zwiebelturm-4711"
	hiddenHash    = "c0ffee4711decaf0"
)

// secrets are texts that nothing may hold, by their kinds. A further secret gets its line here.
func secrets(token string) map[string]string {
	return map[string]string{
		"token":               token,
		"user":                hiddenUser,
		"user in hexadecimal": hex.EncodeToString([]byte(hiddenUser)),
		"user in base64":      base64.StdEncoding.EncodeToString([]byte(hiddenUser))[:20],
		"address":             hiddenAddress,
		"network":             "198.51.100.0",
		"IPv6 address":        "2001:db8:7a69",
		"password":            hiddenWord,
		"hash of a password":  hiddenHash,
		"old secret key":      oldKey,
		"new secret key":      newKey,
		"raw secret key":      string(mustHex(newKey)),
	}
}

func mustHex(text string) []byte {
	raw, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return raw
}

// outputs are all that a full run has written, by kind. A further output of a run gets its line where
// the run is.
type outputs map[string]string

// wantNoSecret fails the test if an output holds a secret.
func (o outputs) wantNoSecret(t *testing.T, secrets map[string]string) {
	t.Helper()
	for name, text := range o {
		if len(text) == 0 {
			t.Errorf("%s is empty, so nothing is known of it", name)
		}
		folded := strings.ToLower(text)
		for what, secret := range secrets {
			at := strings.Index(folded, strings.ToLower(secret))
			if at >= 0 {
				t.Errorf("%s holds the %s: …%s…", name, what, text[max(0, at-200):min(len(text), at+200)])
			}
		}
	}
}

func TestNothingThatIsWrittenHoldsASecret(t *testing.T) {
	t.Parallel()
	binary, err := localdb.FindAny(t.Context())
	if errors.Is(err, localdb.ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := enginetest.Private(t, binary.Engine, dir)
	d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
	enginetest.Migrate(t, d.DSN)
	for _, zone := range hidingZonesOf() {
		zone.Keys.Form = service.KeyHMAC
		zone.ResetOnSuccess = true
		zone.RepeatSecret = service.RepeatFree
		d.SetZone(t, zone)
	}
	dsn := passwordDSN(t, d)
	folder := keyFolderOf(t, map[string]string{"2026-10": oldKey, "2026-11": newKey})
	env := environment{"VELOCITY_DSN": dsn, "VELOCITY_KEY_HMAC_FILE": folder}
	token := strings.TrimSpace(command(env, nil, "token", "create", "shop", "--scope", "admin").stdout)
	spans := &receiver{spans: map[string][]*traces.Span{}}
	collector := httptest.NewServer(spans)
	t.Cleanup(collector.Close)
	process, i := program(
		t, []string{"VELOCITY_DSN=" + dsn, "VELOCITY_KEY_HMAC_FILE=" + folder, "OTEL_EXPORTER_OTLP_ENDPOINT=" +
			collector.URL},
		"serve", "--access-log", "--log-level", "debug", "--check-timeout", "4s", "--drain-delay", "10ms", "--require-auth")
	url := withToken(t, i.url, token)
	written := outputs{
		"problems of HTTP":     askEverything(t, url) + askWhileHeld(t, d, url, folder),
		"answers to strangers": mustAsk(t, i.url+"/v1/check", everyBucket(), http.StatusUnauthorized).body,
		"the metrics":          mustAsk(t, url+"/metrics", "", http.StatusOK).body,
	}
	written["the commands"] = runEveryCommand(env)
	written["an instance without keys"] = askWithoutKeys(t, dsn)
	written["panics"] = askWherePanicsAre(t, folder)
	// All of the database, before faults are made in it.
	for name, text := range dump(t, d) {
		written["table "+name] = text
	}
	breakTables(t, d, url)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/check", "/v1/zones/1/buckets/" + hiddenUser, "/readyz"} {
		body := ""
		if path == "/v1/check" {
			body = everyBucket()
		}
		if r, err := request(url+path, body); err != nil || r.status == http.StatusOK && path != "/readyz" {
			t.Errorf("%s without the engine: %d %s (%v)", path, r.status, r.body, err)
		}
	}
	eventuallyReady(t, i, "the database cannot be reached")
	if code := i.stop(t); code != exitSuccess || process.ProcessState == nil {
		t.Errorf("exit code %d", code)
	}
	engineLog, err := os.ReadFile(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	written["the log"], written["the engine's log"], written["the traces"] = i.stderr.String(), string(engineLog),
		spans.text
	for _, words := range []string{
		`"level":"INFO"`, `"level":"WARN"`, `"level":"ERROR"`, "2026-11",
		"/v1/zones/:id/buckets/:key",
	} {
		if !strings.Contains(written["the log"], words) {
			t.Errorf("the run was not a full one: its log has no %s", words)
		}
	}
	written.wantNoSecret(t, secrets(token))
}

// withToken returns the address of a proxy that adds a token to each request.
func withToken(t *testing.T, target, token string) string {
	t.Helper()
	service, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(service)
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// passwordDSN makes an account with every right on the database, and returns the DSN with its password.
func passwordDSN(t *testing.T, d *enginetest.Database) string {
	t.Helper()
	cfg := configOf(t, d.DSN)
	cfg.User, cfg.Passwd = "keeper", hiddenWord
	enginetest.Exec(t, d.SQL, "CREATE USER 'keeper'@'localhost' IDENTIFIED BY '"+hiddenWord+"'")
	enginetest.Exec(t, d.SQL, "GRANT ALL ON "+cfg.DBName+".* TO 'keeper'@'localhost'")
	return cfg.FormatDSN()
}

func everyBucket() string {
	return fmt.Sprintf(`{"secret_hash":%q,"buckets":[{"zone_id":1,"bucket_key":" %s"},{"zone_id":2,"bucket_key":"%s"},`+
		`{"zone_id":3,"bucket_key":"%s"}]}`, hiddenHash, strings.ToUpper(hiddenUser), hiddenAddress, hiddenIPv6)
}

// breakTables makes the engine refuse the statements of a check and of a change.
func breakTables(t *testing.T, d *enginetest.Database, url string) {
	t.Helper()
	enginetest.Exec(t, d.SQL, "RENAME TABLE zone_txn TO zone_txn_away")
	for path, body := range map[string]string{
		"/v1/check": everyBucket(), "/v1/zones/1/buckets/" + hiddenUser: "", "/v1/zones/1/buckets/" + hiddenUser +
			"/release": `{"reason":"x"}`,
	} {
		if r, err := request(url+path, body); err != nil || r.status < http.StatusInternalServerError {
			t.Errorf("%s without a table: %d %s (%v)", path, r.status, r.body, err)
		}
	}
}

// dump returns the rows of every table as text.
func dump(t *testing.T, d *enginetest.Database) outputs {
	t.Helper()
	tables := outputs{}
	for _, name := range column(t, d.SQL, "SELECT table_name FROM information_schema.tables WHERE table_schema = "+
		"DATABASE() AND table_type = 'BASE TABLE'") {
		tables[name] = "table " + name + "\n" + strings.Join(column(t, d.SQL, "SELECT * FROM `"+name+"`"), "\n")
	}
	for _, name := range []string{"zone_txn", "zone_bucket_lock", "zone_attempt", "zone_override", "zone_audit"} {
		if !strings.Contains(tables[name], "hmac:2026-11:") {
			t.Errorf("table %s holds no pseudonym:\n%s", name, tables[name])
		}
	}
	return tables
}

// column returns the rows of a query, the columns of each joined.
func column(t *testing.T, on *sql.DB, query string) []string {
	t.Helper()
	rows, err := enginetest.Texts(on, query)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = strings.Join(row, " ")
	}
	return list
}
