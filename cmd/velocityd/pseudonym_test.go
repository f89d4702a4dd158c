package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// Two secret keys, as openssl writes them.
const (
	oldKey = "5f4dcc3b5aa765d61d8327deb882cf995f4dcc3b5aa765d61d8327deb882cf99"
	newKey = "0d107d09f5bbe40cade3de5c71e9e9b70d107d09f5bbe40cade3de5c71e9e9b7"
)

// keyFolderOf returns a folder of keys by id.
func keyFolderOf(t *testing.T, keys map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for id, secret := range keys {
		writeKey(t, folder, id, secret)
	}
	return folder
}

func writeKey(t *testing.T, folder, id, secret string) {
	t.Helper()
	writeFile(t, filepath.Join(folder, id), secret+"\n")
}

func TestFolderOfKeysIsReadStrictly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(folder string) error
		want    string // of the error; empty: it is read
	}{
		"one key":        {func(string) error { return nil }, ""},
		"mounted secret": {func(folder string) error { return os.Mkdir(filepath.Join(folder, "..2026_11_22"), 0o700) }, ""},
		"link to a key": {func(folder string) error {
			return os.Symlink(filepath.Join(folder, "k1"), filepath.Join(folder, "k2"))
		}, ""},
		"read by the group": {func(folder string) error { return os.Chmod(filepath.Join(folder, "k1"), 0o640) }, ""},         //nolint:gosec // what is tested
		"read by everybody": {func(folder string) error { return os.Chmod(filepath.Join(folder, "k1"), 0o644) }, "chmod o="}, //nolint:gosec // what is tested
		"another file": {
			func(folder string) error { return os.WriteFile(filepath.Join(folder, "k1~"), []byte(newKey), 0o600) },
			"a-z, 0-9 and -",
		},
		"a folder in it": {
			func(folder string) error { return os.Mkdir(filepath.Join(folder, "k2"), 0o700) },
			"is no regular file",
		},
		"too short": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "k1"), []byte(oldKey[:62]), 0o600)
		}, "openssl rand -hex 32"},
		"raw bytes": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "k1"), bytes.Repeat([]byte{7}, 32), 0o600)
		}, "hexadecimal"},
		"enormous": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "k1"), make([]byte, 1<<20), 0o600)
		}, "is longer than"},
		"no key":    {func(folder string) error { return os.Remove(filepath.Join(folder, "k1")) }, "holds no key"},
		"no folder": {os.RemoveAll, "no such file"},
		"three keys": {func(folder string) error {
			return errors.Join(os.WriteFile(filepath.Join(folder, "k2"), []byte(newKey), 0o600),
				os.WriteFile(filepath.Join(folder, "k3"), []byte(newKey), 0o600))
		}, "remove an old one"},
	} {
		folder := keyFolderOf(t, map[string]string{"k1": oldKey})
		if err := test.prepare(folder); err != nil {
			t.Fatal(err)
		}
		ring, err := ask.KeyFlags{KeyHMACFile: folder}.Keyring()
		switch {
		case test.want == "" && (err != nil || len(ring.Keys()) == 0):
			t.Errorf("%s: %v", name, err)
		case test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), oldKey[:8])):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if ring, err := (ask.KeyFlags{}).Keyring(); err != nil || len(ring.Keys()) != 0 {
		t.Errorf("without a folder: %v, %v", ring, err)
	}
}

func TestOtherSecretUnderKnownIDLeavesInstanceUnready(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, hidingZonesOf()[0])
	right, wrong := keyFolderOf(t, map[string]string{"k1": oldKey}), keyFolderOf(t, map[string]string{"k1": newKey})
	env := func(folder string) environment {
		return environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": folder}
	}
	i := start(t, env(right), append([]string{"serve"}, slow...)...)
	enginetest.Eventually(t, "its fingerprint is noted", func() bool {
		return d.Count(t, "SELECT COUNT(*) FROM velocity_identity WHERE name = 'key k1' AND LENGTH(value) = 16") == 1
	})
	for _, args := range []string{"doctor", "bucket peek 1 alice"} {
		if r := command(env(wrong), nil, strings.Fields(args)...); r.code != exitError ||
			!strings.Contains(r.stdout+r.stderr, "other instances use") {
			t.Errorf("%s: %d %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	must(t, env(right), "doctor")
	// As if others had come first.
	enginetest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = REVERSE(value) WHERE name = 'key k1'")
	eventuallyStatus(t, i.url+"/readyz", http.StatusServiceUnavailable)
}

// hidingZonesOf makes a zone of users and one of addresses that keep pseudonyms, and one of addresses that
// keeps them clear.
func hidingZonesOf() []service.Zone {
	return []service.Zone{
		{
			ID: 1, Rate: 2, Window: time.Hour, Lockout: time.Hour,
			Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC},
		},
		{
			ID: 2, Rate: 2, Window: time.Hour,
			Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24},
		},
		{ID: 3, Rate: 2, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}},
	}
}

func TestClearKeysNameBucketsThatAreHidden(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, hidingZonesOf()...)
	folder := keyFolderOf(t, map[string]string{"k1": oldKey})
	direct := environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": folder}
	i := start(t, direct, append([]string{"serve"}, slow...)...)
	over := environment{"VELOCITY_URL": i.url}

	for _, env := range []environment{direct, over} {
		if got := must(t, env, "check", "1", "Alice", "2", "203.0.113.9"); !strings.Contains(got, "zone 1, alice:") ||
			!strings.Contains(got, "203.0.113.0/24") {
			t.Errorf("the answer is not in clear keys: %s", got)
		}
	}
	if r := command(over, nil, "check", "1", "ALICE"); r.code != exitBlocked {
		t.Errorf("the third attempt: %d %s%s", r.code, r.stdout, r.stderr)
	}
	if peek := peekOf(t, must(t, direct, "bucket", "peek", "1", " ALICE", "--json")); peek["bucket_key"] != "alice" ||
		peek["locked_until"] == nil || peek["velocity"] != float64(2) {
		t.Errorf("peeked %v", peek)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key LIKE 'hmac:k1:%'"); n != 5 {
		t.Errorf("%d txns under pseudonyms", n)
	}
	must(t, over, "bucket", "release", "1", "Alice", "--reason", "called us")
	must(t, direct, "check", "1", "alice")

	lookUpOverrides(t, direct, over)
	for args, want := range map[string]string{
		"override set 2 203.0.0.0/16 --action deny --reason x": "key_form is clear",
		"override delete 2 203.0.113.0/25":                     "longer",
		"override delete 1 nobody":                             "no such override",
	} {
		if r := command(direct, nil, strings.Fields(args)...); r.code == exitSuccess || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %d %s", args, r.code, r.stderr)
		}
	}
	must(t, over, "override", "set", "3", "203.0.113.0/24", "--action", "deny", "--reason",
		"networks work where addresses are clear")
	if r := command(over, nil, "check", "3", "203.0.113.9"); r.code != exitBlocked {
		t.Errorf("denied by its network: %d", r.code)
	}
	must(t, over, "override", "set", "2", "203.0.113.0/24", "--action", "deny", "--reason", "a bucket's own network")
	if r := command(direct, nil, "check", "2", "203.0.113.77"); r.code != exitBlocked {
		t.Errorf("denied by its bucket: %d", r.code)
	}
}

// peekOf reads a peek in JSON.
func peekOf(t *testing.T, text string) (peek map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &peek); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return peek
}

// lookUpOverrides makes, finds, replaces and removes an override by a clear key.
func lookUpOverrides(t *testing.T, direct, over environment) {
	t.Helper()
	must(t, over, "override", "set", "1", "Bob", "--action", "deny", "--reason", "guessing")
	if r := command(direct, nil, "check", "1", "bob"); r.code != exitBlocked {
		t.Errorf("denied: %d", r.code)
	}
	must(t, direct, "override", "set", "1", "BOB", "--action", "limit", "--rate", "9", "--window", "60", "--reason",
		"trial")
	must(t, over, "override", "set", "1", "bob", "--action", "limit", "--rate", "7", "--window", "60", "--reason", "trial")
	list := must(t, over, "override", "list", "1")
	if strings.Count(list, "hmac:k1:") != 1 || strings.Contains(list, "bob") || !strings.Contains(list, "limit 7") {
		t.Errorf("listed\n%s", list)
	}
	if got := must(t, over, "check", "1", "bob"); !strings.Contains(got, "6 of 7") {
		t.Errorf("limited: %s", got)
	}
	// A pseudonym that was shown names its bucket.
	shown := list[strings.Index(list, "hmac:k1:"):]
	shown = shown[:strings.IndexByte(shown, ' ')]
	must(t, over, "override", "set", "1", shown, "--action", "allow", "--reason", "by pseudonym")
	if peek := must(t, direct, "bucket", "peek", "1", shown); !strings.Contains(peek, "allow") {
		t.Errorf("peeked by pseudonym: %s", peek)
	}
	if got := must(t, direct, "override", "delete", "1", "Bob"); !strings.Contains(got, "hmac:k1:") {
		t.Errorf("removed %s", got)
	}
	if got := must(t, over, "check", "1", "bob"); !strings.Contains(got, "0 of 2") {
		t.Errorf("without an override: %s", got)
	}
}

func TestLookUpsSpanBothKeysWhileTheyRotate(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, hidingZonesOf()...)
	folder := keyFolderOf(t, map[string]string{"k1": oldKey})
	env := environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": folder}
	must(t, env, "check", "1", "alice")
	must(t, env, "override", "set", "1", "carol", "--action", "deny", "--reason", "guessing")
	writeKey(t, folder, "k2", newKey)

	if peek := peekOf(t, must(t, env, "bucket", "peek", "1", "alice", "--json")); peek["velocity"] != float64(1) ||
		peek["bucket_key"] != "alice" {
		t.Errorf("the attempt by the old key is not seen: %v", peek)
	}
	must(t, env, "check", "1", "alice")
	if r := command(env, nil, "check", "1", "alice"); r.code != exitBlocked {
		t.Errorf("the third attempt: %d %s", r.code, r.stderr)
	}
	must(t, env, "bucket", "release", "1", "alice", "--reason", "called us")
	must(t, env, "check", "1", "alice")
	if r := command(env, nil, "check", "1", "Carol"); r.code != exitBlocked {
		t.Errorf("the override by the old key does not hold: %d", r.code)
	}
	if peek := must(t, env, "bucket", "peek", "1", "carol"); !strings.Contains(peek, "deny") {
		t.Errorf("peeked %s", peek)
	}
	// Set anew, it comes under the new key, and there is still one.
	must(t, env, "override", "set", "1", "carol", "--action", "deny", "--reason", "still guessing")
	if list := must(t, env, "override", "list", "1"); strings.Count(list, "hmac:") != 1 ||
		!strings.Contains(list, "hmac:k2:") {
		t.Errorf("listed\n%s", list)
	}
	if err := os.Remove(filepath.Join(folder, "k1")); err != nil {
		t.Fatal(err)
	}
	if r := command(env, nil, "check", "1", "carol"); r.code != exitBlocked {
		t.Errorf("without the old key: %d", r.code)
	}
	if got := must(t, env, "check", "1", "alice"); !strings.Contains(got, "0 of 2") {
		t.Errorf("without the old key: %s", got)
	}
}

func TestServiceWithoutKeysRefusesHiddenZonesWithReason(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, hidingZonesOf()...)
	i := start(t, env, append([]string{"serve"}, slow...)...)
	for path, body := range map[string]string{
		"/v1/check": alice, "/v1/zones/1/buckets/alice": "", "/v1/zones/1/buckets/alice/release": `{"reason":"x"}`,
		"/v1/zones/1/overrides": `{"bucket_key":"alice","action":"deny"}`,
	} {
		r := mustAsk(t, i.url+path, body, http.StatusServiceUnavailable)
		if !strings.Contains(r.body, `"code":"no_keys"`) || !strings.Contains(r.body, "--key-hmac-file") ||
			r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	mustAsk(t, i.url+"/v1/check", `{"zone_id":3,"bucket_key":"203.0.113.9"}`, http.StatusOK)
	if r := command(env, nil, "check", "1", "alice"); r.code != exitError ||
		!strings.Contains(r.stderr, "--key-hmac-file") {
		t.Errorf("by command: %d %s", r.code, r.stderr)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1") +
		d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = 1"); n != 0 {
		t.Errorf("%d rows of the zone", n)
	}
	if !strings.Contains(i.stderr.String(), "there are no keys to make them with") {
		t.Errorf("no warning:\n%s", i.stderr)
	}
	wrong := launch(t, environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": filepath.Join(t.TempDir(), "none")},
		"serve")
	if code := wrong.await(t); code != exitUsage || !strings.Contains(wrong.stderr.String(), "--key-hmac-file") {
		t.Errorf("with a folder that is not there: %d\n%s", code, wrong.stderr)
	}
}
