package session

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

func TestCheckDSNSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const address = "velocity:hunter2@tcp(db.example:3306)"
	for dsn, want := range map[string]string{
		address + "/velocityd": "",
		"velocity:hunter2@tcp(a:1,b:2, [::1]:3)/velocityd?tls=true": "",
		"velocity:hunter2@tcp(a:1,,b:2)/velocityd":                  "one of its addresses is empty",
		"velocity:hunter2@tcp(a:1,b:2)/":                            "names no database",
		"velocity:hunter2@tcp(a:1,b:2)/velocityd?tls=hunter2":       "tls must be true",
		address + "/velocityd?":                                     "",
		"velocity:p/w@d?x=y@unix(/run/my sql.sock)/velocityd":       "",
		"root@unix(/run/mysqld.sock)/velocityd?tls=true":            "a socket has none",
		"root@unix(/run/mysqld.sock)/velocityd":                     "",
		"velocity:hunter2@/velocityd":                               "",
		"":                                                          "no / in front",
		"hunter2":                                                   "no / in front",
		address:                                                     "no / in front",
		address + "/":                                               "names no database",
		address + "/?tls=true":                                      "names no database",
		"velocity:hunter2@tcp(db.example:3306/velocityd":            "before its last /",
		"velocity:hunter2@tcp(db)x/velocityd":                       "before its last /",
		"velocity:hunter2@carrier/velocityd":                        "before its last /",
		"velocity:hunter2@carrier(pigeon)/velocityd":                "neither tcp nor unix",
		"mysql://velocity:hunter2@db.example/velocityd":             "before its last /",
		address +
			"/velocityd?tls=hunter2": "tls must be true, verify-ca, false, skip-verify or preferred",
		address + "/velocityd?parsetime=true":                "parseTime is written with other capitals",
		address + "/velocityd?TLS=true":                      "tls is written with other capitals",
		address + "/velocityd?hunter2":                       "no name=value",
		address + "/velocityd?tls":                           "tls has no value",
		address + "/velocityd?timeout=5s&&tls=hunter2":       "tls must be",
		address + "/velocityd?tls=true&timeout=5s&tls=false": "tls stands there twice",
		address + "/%zz":                                     "cannot be read",
	} {
		err := CheckDSN(dsn)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", dsn, err)
		case want != "" && (!errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: got %v, want %q and no password", dsn, err, want)
		}
	}
}

func TestDSNParametersAreTakenOrRefusedInWords(t *testing.T) {
	t.Parallel()
	const boolean, yes, no, absent = "true or false", "true, or be left out", "false, or be left out", "be left out: "
	const duration, variable = "a length of time such as 5s",
		"none that velocityd takes: variables of the engine are set on the server"
	for name, c := range map[string]struct {
		taken, refused []string // values
		says           string
	}{
		"allowCleartextPasswords": {[]string{"true", "false"}, []string{"hunter2", ""}, boolean},
		"allowNativePasswords":    {[]string{"1", "0"}, []string{"hunter2"}, boolean},
		"compress":                {[]string{"True", "FALSE"}, []string{"hunter2", "zlib"}, boolean},
		"connectionAttributes": {
			[]string{"program_name:velocityd,team:auth", ""},
			[]string{"%zzhunter2"},
			"a list such as",
		},
		"timeout": {[]string{"2s", "1m30s"}, []string{"hunter2", "5", "0s", "-1s", ""}, duration},
		"tls": {
			[]string{"true", "false", "skip-verify", "preferred", "verify-ca"},
			[]string{"hunter2", "VERIFY-CA"},
			"true, verify-ca, false, skip-verify or preferred",
		},
		"allowAllFiles":            {[]string{"false"}, []string{"true"}, no},
		"allowFallbackToPlaintext": {[]string{"false"}, []string{"true"}, no},
		"allowOldPasswords":        {[]string{"false"}, []string{"true"}, no},
		"clientFoundRows":          {[]string{"false"}, []string{"true"}, no},
		"columnsWithAlias":         {[]string{"false"}, []string{"true"}, no},
		"multiStatements":          {[]string{"false", "0"}, []string{"true", "1", "hunter2"}, no},
		"checkConnLiveness":        {[]string{"true"}, []string{"false"}, yes},
		"interpolateParams":        {[]string{"true"}, []string{"false"}, yes},
		"parseTime":                {[]string{"true", "TRUE", "1"}, []string{"false", "0", "tRUE", "hunter2"}, yes},
		"rejectReadOnly":           {[]string{"true"}, []string{"false"}, yes},
		"charset": {
			[]string{"utf8mb4"},
			[]string{"latin1", "latin1,utf8mb4", "hunter2"},
			"utf8mb4, or be left out",
		},
		"loc":              {[]string{"UTC"}, []string{"Local", "Europe%2FBerlin", "hunter2"}, "UTC, or be left out"},
		"collation":        {nil, []string{"utf8mb4_bin", "latin1_swedish_ci", "hunter2%"}, absent},
		"maxAllowedPacket": {nil, []string{"0", "512", "hunter2"}, absent},
		"readTimeout":      {nil, []string{"5s", "-5s", "hunter2"}, absent},
		"writeTimeout":     {nil, []string{"5s", "hunter2"}, absent},
		"serverPubKey":     {nil, []string{"hunter2"}, absent},
		"strict":           {nil, []string{"true", "false"}, absent},
		"timeTruncate":     {nil, []string{"1s", "0s"}, absent},

		"sql_mode": {nil, []string{"%27%27", "%hunter2"}, variable}, "SQL_MODE": {nil, []string{"%27%27"}, variable},
		"time_zone":                {nil, []string{"%27%2B05:00%27"}, variable},
		"transaction_isolation":    {nil, []string{"%27SERIALIZABLE%27"}, variable},
		"innodb_lock_wait_timeout": {nil, []string{"50"}, variable}, "autocommit": {nil, []string{"0"}, variable},
		"wait_timeout": {nil, []string{"1"}, variable}, "character_set_results": {nil, []string{"latin1"}, variable},
		"timestamp": {nil, []string{"1000000000"}, variable}, "insert_id": {nil, []string{"7"}, variable},
		"GLOBAL max_connections": {nil, []string{"1"}, variable}, "@@session.sql_mode": {nil, []string{"%27%27"}, variable},
		"hunter2": {nil, []string{"hunter2", ""}, variable}, "": {nil, []string{"hunter2"}, variable},
	} {
		for _, value := range c.taken {
			if err := CheckDSN("u:p@tcp(h:1)/d?" + name + "=" + value); err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
		for _, value := range c.refused {
			err := CheckDSN("u:p@tcp(h:1)/d?" + name + "=" + value)
			if !errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s: got %v, want %q", name, value, err, c.says)
			}
		}
	}
}

func TestEachParameterOfTheDriverIsKnown(t *testing.T) {
	t.Parallel()
	known := parameters()
	for name := range known {
		if name == "strict" { // the driver panics
			continue
		}
		// The driver reads some values of its parameters and calls others wrong, and keeps all others as variables.
		cfg, err := mysql.ParseDSN("/?" + name + "=true")
		if err == nil && len(cfg.Params) > 0 {
			t.Errorf("%s: the driver takes it for a variable", name)
		}
	}
	fields := reflect.TypeFor[mysql.Config]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if slices.Contains([]string{
			// No parameters.
			"User", "Passwd", "Net", "Addr", "DBName", "Params", "TLS", "Logger", "DialFunc", "beforeConnect", "pubKey",
			"TLSConfig", "charsets", // tls, charset
		}, field.Name) {
			continue
		}
		found := false
		for name := range known {
			found = found || strings.EqualFold(name, field.Name)
		}
		if !found {
			t.Errorf("the driver has a new setting %s: does velocityd work with it?", field.Name)
		}
	}
}

func TestRedactedDSNNamesAllAddresses(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u:hunter2@tcp(a:1,b:2)/d?tls=true": "u:***@tcp(a:1,b:2)/d",
		"u@tcp(a,[::1]:2)/d":                "u@tcp(a:3306,[::1]:2)/d",
		"u:hunter2@tcp(a:1,)/d":             "(unreadable dsn)",
	} {
		if got := RedactDSN(dsn); got != want {
			t.Errorf("%s: got %s, want %s", dsn, got, want)
		}
	}
}

func TestTLSVerifiesTheNameOfEachAddress(t *testing.T) {
	t.Parallel()
	configs, err := ParseDSN("u:p@tcp(a.example:1,b.example:2)/d?tls=true")
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
		"", "/", "a:b@tcp(h:1)/d?tls=x", "a@unix(/s)/d?strict=true", "@/?=&=", "((/))", "a:b@tcp(h:1,i:2)/d", "a@tcp(,)/d",
		"/d?%", "a:b@tcp([::1]:1)/d?timeout=5s&charset=,",
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

func TestDialGetsTwoThirdsOfConnectByDefault(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]time.Duration{
		"u:p@tcp(a:1,b:2)/velocityd":            time.Minute,
		"u:p@tcp(a:1,b:2)/velocityd?timeout=7s": 7 * time.Second,
	} {
		configs, err := ParseDSN(dsn)
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
