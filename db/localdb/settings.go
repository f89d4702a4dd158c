package localdb

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// serverArgs returns the server's settings. The server is as durable as one in
// production, small enough for a developer's machine, and open only to the owner of the
// folder. The settings in o.Args come last and take precedence.
func serverArgs(f *folder, socket string, o Options) []string {
	args := []string{
		"--no-defaults", // must come first
		"--datadir=" + f.data(),
		"--socket=" + socket,
		"--pid-file=" + f.data() + "/server.pid",
		"--tmpdir=" + f.tmp(),
		"--skip-name-resolve", // so that root@localhost does not match TCP connections from 127.0.0.1
		"--sync-binlog=1",
		"--innodb-flush-log-at-trx-commit=1",
		"--log-bin=binlog",
		"--server-id=1",
		// No replica reads this binary log. It is on because servers in production have
		// one, at its cost.
		"--loose-binlog-expire-logs-seconds=3600",
		"--max-binlog-size=64M",
		"--character-set-server=utf8mb4",
		"--innodb-buffer-pool-size=128M",
		"--max-connections=512",
		"--performance-schema=OFF",
		redoLog(o.Binary.Engine),
	}
	if o.Binary.Engine == MariaDB {
		args = append(args, "--binlog-format=ROW") // MySQL's default
	} else {
		args = append(args, "--loose-mysqlx=OFF",
			// Separate threads of the log hand each commit from one to the next. They are for many cores
			// (MySQL manual, innodb_log_writer_threads); on two cores they cost a tenth of a check.
			"--loose-innodb-log-writer-threads=OFF")
	}
	args = append(args, networkArgs(o)...)
	args = append(args, asRoot()...)
	return append(args, o.Args...)
}

// networkArgs returns the settings of the network. Without a port no connection uses
// TLS, so MySQL need not make keys.
func networkArgs(o Options) []string {
	switch {
	case o.Port != 0:
		return []string{"--port=" + strconv.Itoa(o.Port), "--bind-address=127.0.0.1"}
	case o.Binary.Engine == MySQL:
		return append([]string{"--skip-networking"}, withoutKeys()...)
	default:
		return []string{"--skip-networking"}
	}
}

// withoutKeys stops MySQL from making keys and certificates, which takes most of a
// second.
func withoutKeys() []string {
	return []string{
		"--loose-auto-generate-certs=OFF", "--loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
		"--loose-sha256-password-auto-generate-rsa-keys=OFF",
	}
}

// redoLog returns the setting for the size of the redo log. It is also used when the
// folder is made, so that the first start need not resize the log.
func redoLog(e Engine) string {
	if e == MariaDB {
		return "--innodb-log-file-size=64M"
	}
	return "--loose-innodb-redo-log-capacity=64M"
}

// asRoot returns the setting without which a server refuses to run as root.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// serverEnviron returns this process's environment without the variables that would
// change the server, and without those of the service manager, to which the server
// would otherwise report in place of this process.
func serverEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		for _, prefix := range []string{"MYSQL", "MARIADB", "NOTIFY_SOCKET=", "LISTEN_", "WATCHDOG_"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}
