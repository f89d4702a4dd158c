package localdb

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// serverArgs are the server's settings: as durable as a server in production, as small as a developer's machine wants, and closed
// to everybody but the owner of the folder. The caller's own come last and win.
func serverArgs(f *folder, socket string, o Options) []string {
	args := []string{
		"--no-defaults", // has to be the first
		"--datadir=" + f.data(),
		"--socket=" + socket,
		"--pid-file=" + f.data() + "/server.pid",
		"--tmpdir=" + f.tmp(),
		"--skip-name-resolve", // also keeps root@localhost from standing for TCP callers at 127.0.0.1
		"--sync-binlog=1",
		"--innodb-flush-log-at-trx-commit=1",
		"--log-bin=binlog",
		"--server-id=1",
		// Nothing follows this server's binary log; it is there because production pays for one.
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
		args = append(args, "--loose-mysqlx=OFF")
	}
	args = append(args, networkArgs(o)...)
	args = append(args, asRoot()...)
	return append(args, o.Args...)
}

// networkArgs are the port's settings. Without a port nobody speaks TLS to this server, and MySQL need not make keys for it.
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

// withoutKeys keeps MySQL from making keys and certificates, which cost a start much of a second.
func withoutKeys() []string {
	return []string{
		"--loose-auto-generate-certs=OFF", "--loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
		"--loose-sha256-password-auto-generate-rsa-keys=OFF",
	}
}

// redoLog is the size of the redo log, given at the folder's making already, so that the first start need not resize it.
func redoLog(e Engine) string {
	if e == MariaDB {
		return "--innodb-log-file-size=64M"
	}
	return "--loose-innodb-redo-log-capacity=64M"
}

// asRoot is what a server wants to hear before it runs as root.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// serverEnviron is this process's environment without what would reach into the server: its own variables, and the service
// manager's, to which the server would otherwise report in this process's name.
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
