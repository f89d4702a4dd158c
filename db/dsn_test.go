package db

import (
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestCheckDSNSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const address = "velocity:hunter2@tcp(db.example:3306)"
	for dsn, want := range map[string]string{
		address + "/velocityd": "",
		address + "/velocityd?tls=true&timeout=2s&parseTime=false&charset=utf8mb4": "",
		address + "/velocityd?innodb_lock_wait_timeout=7":                          "", // for the engine to judge
		"velocity:hunter2@tcp(a:1,b:2, [::1]:3)/velocityd?tls=true":                "",
		"velocity:hunter2@tcp(a:1,,b:2)/velocityd":                                 "one of its addresses is empty",
		"velocity:hunter2@tcp(a:1,b:2)/":                                           "names no database",
		"velocity:hunter2@tcp(a:1,b:2)/velocityd?tls=hunter2":                      "tls must be true",
		address + "/velocityd?":                                                    "",
		"velocity:p/w@d?x=y@unix(/run/my sql.sock)/velocityd":                      "",
		"root@unix(/run/mysqld.sock)/velocityd":                                    "",
		"velocity:hunter2@/velocityd":                                              "",
		"":                                                                         "no / in front",
		"hunter2":                                                                  "no / in front",
		address:                                                                    "no / in front",
		address + "/":                                                              "names no database",
		address + "/?tls=true":                                                     "names no database",
		"velocity:hunter2@tcp(db.example:3306/velocityd":                           "before its last /",
		"velocity:hunter2@tcp(db)x/velocityd":                                      "before its last /",
		"velocity:hunter2@carrier/velocityd":                                       "before its last /",
		"velocity:hunter2@carrier(pigeon)/velocityd":                               "neither tcp nor unix",
		"mysql://velocity:hunter2@db.example/velocityd":                            "before its last /",
		address + "/velocityd?tls=hunter2":                                         "tls must be true, verify-ca, false, skip-verify or preferred",
		address + "/velocityd?timeout=hunter2":                                     "timeout must be a length of time",
		address + "/velocityd?readTimeout=5":                                       "readTimeout must be a length of time",
		address + "/velocityd?parseTime=hunter2":                                   "parseTime must be true or false",
		address + "/velocityd?parsetime=true":                                      "parseTime is written with other capitals",
		address + "/velocityd?TLS=true":                                            "tls is written with other capitals",
		address + "/velocityd?loc=hunter2":                                         "loc must be a time zone",
		address + "/velocityd?maxAllowedPacket=hunter2":                            "maxAllowedPacket must be a number",
		address + "/velocityd?collation=hunter2%":                                  "",
		address + "/velocityd?strict=true":                                         "strict does not work here",
		address + "/velocityd?serverPubKey=hunter2":                                "serverPubKey does not work here",
		address + "/velocityd?columnsWithAlias=true":                               "columnsWithAlias does not work here",
		address + "/velocityd?timestamp=1000000000":                                "timestamp would set the time",
		address + "/velocityd?parseTime=true&INSERT_ID=7":                          "insert_id would set the time or the ids",
		address + "/velocityd?hunter2":                                             "no name=value",
		address + "/velocityd?tls":                                                 "tls has no value",
		address + "/velocityd?sql_mode=%hunter2":                                   "no name=value",
		address + "/velocityd?timeout=5s&&tls=hunter2":                             "tls must be",
		address + "/%zz":                                                           "cannot be read",
		address + "/velocityd?connectionAttributes=%zzhunter2":                     "connectionAttributes must be",
		address + "/velocityd?allowNativePasswords=hunter2&x=1":                    "allowNativePasswords must be true or false",
	} {
		err := CheckDSN(dsn)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", dsn, err)
		case want != "" && (!errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: got %v, want %q and no password", dsn, err, want)
		}
	}
}

func TestRedactedDSNNamesAllAddresses(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u:hunter2@tcp(a:1,b:2)/d?x=1": "u:***@tcp(a:1,b:2)/d",
		"u@tcp(a,[::1]:2)/d":           "u@tcp(a:3306,[::1]:2)/d",
		"u:hunter2@tcp(a:1,)/d":        "(unreadable dsn)",
	} {
		if got := RedactDSN(dsn); got != want {
			t.Errorf("%s: got %s, want %s", dsn, got, want)
		}
	}
}

func TestTLSVerifiesTheNameOfEachAddress(t *testing.T) {
	t.Parallel()
	configs, err := parseDSN("u:p@tcp(a.example:1,b.example:2)/d?tls=true")
	if err != nil || len(configs) != 2 {
		t.Fatalf("got %d configurations, %v", len(configs), err)
	}
	for i, want := range []string{"a.example", "b.example"} {
		if got := configs[i].TLS.ServerName; got != want {
			t.Errorf("address %d: name is %q, want %q", i, got, want)
		}
	}
}

// FuzzCheckDSN holds that no text breaks the check, and that one that passes it is
// one that the driver reads.
func FuzzCheckDSN(f *testing.F) {
	for _, dsn := range []string{
		"", "/", "a:b@tcp(h:1)/d?tls=x", "a@unix(/s)/d?strict=true", "@/?=&=", "((/))", "a:b@tcp(h:1,i:2)/d", "a@tcp(,)/d", "/d?%", "a:b@tcp([::1]:1)/d?timeout=5s&charset=,",
	} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		if err := CheckDSN(dsn); err != nil && !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%q: %v", dsn, err)
		}
		_ = RedactDSN(dsn)
	})
}

func TestADialMayTakeTwoThirdsOfAConnectUnlessTheDSNSaysOtherwise(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]time.Duration{
		"u:p@tcp(a:1,b:2)/velocityd":            time.Minute,
		"u:p@tcp(a:1,b:2)/velocityd?timeout=7s": 7 * time.Second,
	} {
		configs, err := parseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range configs {
			if pin(cfg, 90*time.Second); cfg.Timeout != want {
				t.Errorf("%s: a dial may take %s, want %s", dsn, cfg.Timeout, want)
			}
		}
	}
}
