//go:build packages

package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a machine may take for one thing.
const patience = 2 * time.Minute

// machine is a small Debian that runs: its systemd is the first process of namespaces, its disk is a layer in memory
// over the folder of tools/debian-root.sh, and its network is a loopback that no other process sees.
type machine struct {
	t   *testing.T
	pid int
	// environ is exported by one script for the next.
	environ string
}

// boot mounts the disk and becomes systemd. $1 is the folder below, $2 an empty folder for the layer.
const boot = `set -eu
ip link set lo up
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/disk"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/disk"
cd "$2/disk"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=0755 tmpfs dev
for device in null zero full random urandom tty; do touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
echo debian >etc/hostname
pivot_root . mnt # and no chroot, in which no process may make the namespace of PrivateUsers
cd /
umount -l /mnt
mount --make-rshared / # as systemd's own containers have it: credentials are mounted by a child
exec env -i container=namespaces PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=no
`

// newMachine boots a machine, which ends with the test. It needs root.
func newMachine(t *testing.T) *machine {
	t.Helper()
	below := os.Getenv("VELOCITY_DEBIAN")
	if below == "" || os.Geteuid() != 0 {
		t.Fatal("the tests of packages need root, and VELOCITY_DEBIAN from tools/debian-root.sh: run make test-packages")
	}
	var console bytes.Buffer
	command := exec.Command("bash", "-c", boot, "boot", below, t.TempDir())
	command.Stdout, command.Stderr = &console, &console
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWCGROUP,
		Pdeathsig: syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		t.Fatalf("boot: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // all processes of the machine end with the first one
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the console:\n%s", &console)
		}
	})
	m := &machine{t: t, pid: command.Process.Pid, environ: filepath.Join("/root", ".exported")}
	m.eventually("it has booted",
		`state=$(systemctl is-system-running 2>/dev/null || true); test "$state" = running -o "$state" = degraded`)
	return m
}

// try runs a script on the machine, as root in /root, and returns its output. The script finds the variables that
// scripts before it have exported.
func (m *machine) try(script string) (string, error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	const around = `cd /root; if [ -f "$0" ]; then . "$0"; fi; eval "$1"; export -p >"$0"`
	command := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts",
		"--ipc",
		"--root", "--wd", "env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C",
		"DEBIAN_FRONTEND=noninteractive", "bash", "-euo", "pipefail", "-c", around, m.environ, script)
	output, err := command.CombinedOutput()
	return string(output), err
}

// run is try for a script that has to succeed.
func (m *machine) run(script string) string {
	m.t.Helper()
	output, err := m.try(script)
	if err != nil {
		journal, _ := m.try(
			"systemctl status --no-pager --lines=30 velocityd 2>&1; journalctl --no-pager --lines=30 --unit velocityd")
		m.t.Fatalf("%v\n--- script\n%s\n--- output\n%s\n--- the service\n%s", err, script, output, journal)
	}
	return output
}

// code runs a script and returns its exit code.
func (m *machine) code(script string) int {
	m.t.Helper()
	output, err := m.try(script)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}

// eventually repeats a script until it succeeds.
func (m *machine) eventually(claim, script string) {
	m.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		output, err := m.try(script)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not so in %s: %s\n%s", patience, claim, output)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// put writes a file on the machine, with a mode such as 0600.
func (m *machine) put(path, mode string, content []byte) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.pid), "--mount", "--root", "--wd",
		"sh", "-c", `umask 077; mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"`, "put", path, mode)
	command.Stdin = bytes.NewReader(content)
	if output, err := command.CombinedOutput(); err != nil {
		m.t.Fatalf("write %s: %v\n%s", path, err, output)
	}
}

// putFile copies a file into /root of the machine, and returns its name.
func (m *machine) putFile(path string) string {
	m.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	name := filepath.Base(path)
	m.put("/root/"+name, "0644", content)
	return name
}

// lines returns the lines of a script's output.
func (m *machine) lines(script string) []string {
	m.t.Helper()
	return strings.Split(strings.TrimSpace(m.run(script)), "\n")
}
