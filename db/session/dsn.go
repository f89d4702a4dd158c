package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/address"
	"velocityd/service"
)

// CheckDSN returns the fault of dsn, as far as that can be known without
// connecting: whether it can be read, names a database, and carries parameters
// and values that velocityd works with. The error wraps service.ErrInvalid and
// repeats nothing of the dsn but the name of a parameter that the driver knows: a
// password may stand in the wrong place.
func CheckDSN(dsn string) error {
	dsn, _ = cutVerifyCA(dsn) // see WithTLS
	_, err := NewConnector(Options{DSN: dsn, LockWait: DefaultLockWait}, new(Database), ForOthers)
	return err
}

// ParseDSN reads a DSN of one address or several, and returns the configuration of each. It does
// not wrap the driver's error, which may quote the password.
func ParseDSN(dsn string) ([]*mysql.Config, error) {
	configs, fault := parseForms(dsn)
	switch {
	case fault != "":
		return nil, fmt.Errorf("%w: dsn cannot be read%s; write user:password@tcp(host:3306)/database", service.ErrInvalid,
			fault)
	case configs[0].DBName == "":
		return nil, fmt.Errorf("%w: dsn names no database; end it in /database", service.ErrInvalid)
	}
	return configs, nil
}

// parseForms reads a DSN that may lack a database. fault names the fault of its form, to
// stand behind other words.
func parseForms(dsn string) (configs []*mysql.Config, fault string) {
	list := address.Split(dsn)
	for _, one := range list {
		if fault := dsnFault(one); fault != "" {
			return nil, ": " + fault
		}
		if len(list) > 1 && strings.Contains(one[:strings.LastIndex(one, "/")], "()") {
			return nil, ": one of its addresses is empty"
		}
		cfg, err := mysql.ParseDSN(one)
		if err != nil {
			return nil, " by the driver"
		}
		if cfg.Net == "unix" && cfg.TLSConfig == "true" {
			return nil, ": tls=true verifies the name of a host, and a socket has none"
		}
		configs = append(configs, cfg)
	}
	return configs, ""
}

// dsnFault finds the fault of a dsn's form, by the driver's own
// reading of its parts. It returns "" if it finds nothing.
func dsnFault(dsn string) string {
	slash := strings.LastIndex(dsn, "/")
	if slash < 0 {
		return "it has no / in front of the database's name"
	}
	before, err := mysql.ParseDSN(dsn[:slash+1])
	switch {
	case err != nil:
		return "what stands before its last / is no user:password@tcp(host:port) and no user@unix(socket)"
	case !slices.Contains([]string{"tcp", "tcp4", "tcp6", "unix"}, before.Net):
		return "its network is neither tcp nor unix"
	}
	_, params, _ := strings.Cut(dsn[slash+1:], "?")
	seen := map[string]bool{}
	for param := range strings.SplitSeq(params, "&") {
		name, _, _ := strings.Cut(param, "=")
		if fault := parameterFault(param); fault != "" {
			return fault
		}
		if param != "" && seen[name] {
			return fmt.Sprintf("its parameter %s stands there twice", name)
		}
		seen[name] = true
	}
	return ""
}

// parameterFault returns the fault of one name=value, or "".
func parameterFault(param string) string {
	if param == "" {
		return ""
	}
	name, value, hasValue := strings.Cut(param, "=")
	for known, p := range parameters() {
		switch {
		case !strings.EqualFold(name, known):
			continue
		case name != known:
			return fmt.Sprintf("its parameter %s is written with other capitals", known)
		case !hasValue:
			return fmt.Sprintf("its parameter %s has no value", known)
		case p.takes != nil && p.takes(value):
			if _, err := mysql.ParseDSN("/?" + param); err == nil {
				return ""
			}
		}
		return fmt.Sprintf("its parameter %s must be %s", known, p.form)
	}
	if !hasValue {
		return "one of its parameters is no name=value"
	}
	return "one of its parameters is none that velocityd takes: variables of the engine are set on the server"
}

// parameter is one that the driver reads. takes says whether velocityd works with a value, if
// the driver can read it; nil means that it works with none. form says which values they are.
type parameter struct {
	takes func(value string) bool
	form  string
}

// parameters returns all parameters that the driver reads. It takes every other name for a
// variable of the engine. A DSN carries none of those: the sessions have the values that the SQL relies on.
func parameters() map[string]parameter {
	free := func(form string) parameter { return parameter{func(string) bool { return true }, form} }
	fixed := func(values ...string) parameter {
		return parameter{
			func(value string) bool { return slices.Contains(values, strings.ToLower(value)) },
			values[0] + ", or be left out",
		}
	}
	yes, no := fixed("true", "1"), fixed("false", "0")
	absent := func(reason string) parameter { return parameter{nil, "left out: " + reason} }
	return map[string]parameter{
		"allowCleartextPasswords": free("true or false"),
		"allowNativePasswords":    free("true or false"),
		"compress":                free("true or false"),
		"connectionAttributes":    free("a list such as program_name:velocityd"),
		"tls":                     free("true, verify-ca, false, skip-verify or preferred"),
		"timeout": {func(value string) bool {
			timeout, _ := time.ParseDuration(value)
			return timeout > 0
		}, "a length of time such as 5s"},

		// People write them, and velocityd works with one value alone.
		"allowAllFiles":            no,
		"allowFallbackToPlaintext": no, // tls=true would mean tls=preferred
		"allowOldPasswords":        no,
		"charset":                  fixed("utf8mb4"),
		"checkConnLiveness":        yes,
		"clientFoundRows":          no, // ROW_COUNT() of an INSERT must not count rows that were there
		"columnsWithAlias":         no,
		"interpolateParams":        yes,
		"loc":                      fixed("UTC", "utc"),
		"multiStatements":          no, // it widens any injection
		"parseTime":                yes,
		"rejectReadOnly":           yes,

		"collation":        absent("the tables say how keys are compared"),
		"maxAllowedPacket": absent("the server says how long a packet may be"),
		"readTimeout":      absent("velocityd gives each statement its deadline"),
		"serverPubKey":     absent("velocityd reads no such key; TLS proves the server"),
		"strict":           absent("sessions are always strict"), // the driver panics
		"timeTruncate":     absent("instants are exact to a microsecond"),
		"writeTimeout":     absent("velocityd gives each statement its deadline"),
	}
}

// RedactDSN returns dsn for printing, without its password and parameters. A
// dsn that cannot be parsed is not repeated at all.
func RedactDSN(dsn string) string {
	configs, fault := parseForms(dsn)
	if fault != "" {
		return "(unreadable dsn)"
	}
	cfg, password := configs[0], ""
	if cfg.Passwd != "" {
		password = ":***"
	}
	addresses := make([]string, len(configs))
	for i, cfg := range configs {
		addresses[i] = cfg.Addr
	}
	return fmt.Sprintf("%s%s@%s(%s)/%s", cfg.User, password, cfg.Net, strings.Join(addresses, ","), cfg.DBName)
}
