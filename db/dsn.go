package db

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/address"
	"velocityd/service"
)

// CheckDSN says what is wrong with dsn, as far as that can be known without
// connecting: whether it can be read, names a database, and gives the driver's
// parameters values that they can have. The error wraps service.ErrInvalid and
// repeats nothing of the dsn but the name of a parameter that the driver knows: a
// password may stand in the wrong place.
func CheckDSN(dsn string) error {
	dsn, _ = cutVerifyCA(dsn) // see WithTLS
	_, err := newConnector(Options{DSN: dsn, LockWait: DefaultLockWait}, forPool)
	return err
}

// parseDSN reads a DSN of one address or several, and returns the configuration of each. It does
// not wrap the driver's error, which may quote the password.
func parseDSN(dsn string) ([]*mysql.Config, error) {
	configs, fault := parseForms(dsn)
	switch {
	case fault != "":
		return nil, fmt.Errorf("%w: dsn cannot be read%s; write user:password@tcp(host:3306)/database", service.ErrInvalid, fault)
	case configs[0].DBName == "":
		return nil, fmt.Errorf("%w: dsn names no database; end it in /database", service.ErrInvalid)
	}
	return configs, nil
}

// parseForms reads a DSN that may lack a database. fault says what is wrong with its form, to
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
		configs = append(configs, cfg)
	}
	return configs, ""
}

// dsnFault finds out what is wrong with the form of a dsn, by the driver's own
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
	for param := range strings.SplitSeq(params, "&") {
		if fault := parameterFault(param); fault != "" {
			return fault
		}
	}
	return ""
}

// parameterFault says what is wrong with one name=value, by the driver's own
// reading, or returns "".
func parameterFault(param string) string {
	name, _, hasValue := strings.Cut(param, "=")
	if name == "" && !hasValue {
		return ""
	}
	for known, form := range driverParameters() {
		switch {
		case !strings.EqualFold(name, known):
		case name != known:
			return fmt.Sprintf("its parameter %s is written with other capitals", known)
		case !hasValue:
			return fmt.Sprintf("its parameter %s has no value", known)
		case form == "":
			return fmt.Sprintf("its parameter %s does not work here", known)
		default:
			if _, err := mysql.ParseDSN("/?" + param); err != nil {
				return fmt.Sprintf("its parameter %s must be %s", known, form)
			}
			return ""
		}
	}
	if _, err := mysql.ParseDSN("/?" + param); err != nil || !hasValue {
		return "one of its parameters is no name=value"
	}
	if strings.EqualFold(name, "timestamp") || strings.EqualFold(name, "insert_id") {
		return fmt.Sprintf("its parameter %s would set the time or the ids of what is recorded", strings.ToLower(name))
	}
	return "" // a system variable, of which the engine knows more
}

// driverParameters are the parameters that the driver itself reads, with the form
// of their values. Those without a form are of no use in a program like this one.
// All other parameters are system variables of the engine.
func driverParameters() map[string]string {
	const boolean, duration = "true or false", "a length of time such as 5s"
	return map[string]string{
		"allowAllFiles": boolean, "allowCleartextPasswords": boolean, "allowFallbackToPlaintext": boolean,
		"allowNativePasswords": boolean, "allowOldPasswords": boolean, "checkConnLiveness": boolean,
		"clientFoundRows": boolean, "compress": boolean, "interpolateParams": boolean,
		"multiStatements": boolean, "parseTime": boolean, "rejectReadOnly": boolean,
		"readTimeout": duration, "timeTruncate": duration, "timeout": duration, "writeTimeout": duration,
		"charset": "a list of character sets such as utf8mb4", "collation": "a collation such as utf8mb4_bin",
		"connectionAttributes": "a list such as program_name:velocityd", "loc": "a time zone such as UTC",
		"maxAllowedPacket": "a number of bytes", "tls": "true, verify-ca, false, skip-verify or preferred",
		"columnsWithAlias": "", "serverPubKey": "", "strict": "",
	}
}
