package localdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A MariaDB's first statements come before its own scripts, its last ones after them. They leave root@localhost alone, without a
// password: the scripts also make anonymous users, which would win over 'user'@'%', and a root for the machine's own name. One
// statement a line: the bootstrap reader wants it so.
const (
	bootstrapBegin = `CREATE DATABASE mysql;
USE mysql;
SET @auth_root_socket = NULL;
`
	bootstrapEnd = `
DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost');
DELETE FROM mysql.proxies_priv WHERE User = '' OR Host <> 'localhost';
`
)

// halfMade begins the name of a folder in which data is being made.
const halfMade = "init."

// initialise makes a new data folder. The work is done under another name and renamed when it is complete, so that a process
// killed half-way leaves nothing that a later start could take for data.
func (f *folder) initialise(ctx context.Context, b Binary, log *os.File) error {
	f.removeHalfMade()
	tmp, err := os.MkdirTemp(f.path, halfMade)
	if err != nil {
		return fmt.Errorf("create data folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd, err := installCommand(ctx, b, tmp)
	if err != nil {
		return errors.Join(err, ctx.Err()) // as below
	}
	cmd.Env = append(serverEnviron(), "TMPDIR="+tmp)
	if err := runInstaller(cmd, log); err != nil {
		return errors.Join(err, ctx.Err()) // killed at the context's end, a program does not say so itself
	}
	if err := f.recordEngine(b); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "data"), f.data()); err != nil {
		return fmt.Errorf("put new data in place: %w", err)
	}
	return syncFolder(f.path)
}

// removeHalfMade removes what killed initialisations have left; what an orphan of theirs still holds goes next time.
func (f *folder) removeHalfMade() {
	entries, _ := os.ReadDir(f.path)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), halfMade) {
			_ = os.RemoveAll(filepath.Join(f.path, e.Name()))
		}
	}
}

// installCommand is the engine's own way of making an empty data folder, at dir/data.
func installCommand(ctx context.Context, b Binary, dir string) (*exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	if b.Engine == MySQL {
		args := slices.Concat([]string{
			"--no-defaults", "--initialize-insecure", "--datadir=" + data, "--performance-schema=OFF",
			redoLog(b.Engine),
		}, withoutKeys(), asRoot())
		return exec.CommandContext(ctx, b.Path, args...), nil
	}
	statements, err := systemTables(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w", err)
	}
	args := append([]string{
		"--no-defaults", "--bootstrap", "--datadir=" + data, "--tmpdir=" + dir, "--max-allowed-packet=16M", redoLog(b.Engine),
	}, asRoot()...)
	cmd := exec.CommandContext(ctx, b.Path, args...)
	cmd.Stdin = strings.NewReader(statements)
	return cmd, nil
}

// systemTables are the statements that make a MariaDB's own tables, from the scripts that it brings along. mariadb-install-db
// feeds the server with the same, but needs a program of the client's package, and knows its folders only where it was installed.
func systemTables(ctx context.Context, b Binary) (string, error) {
	share, err := shareFolder(ctx, b)
	if err != nil {
		return "", err
	}
	prefix := "mariadb_"
	if _, err := os.Stat(filepath.Join(share, "mysql_system_tables.sql")); err == nil {
		prefix = "mysql_" // MariaDB 10.11
	}
	text := bootstrapBegin
	for _, name := range []string{
		prefix + "system_tables.sql", prefix + "performance_tables.sql", prefix + "system_tables_data.sql", "fill_help_tables.sql",
	} {
		script, err := os.ReadFile(filepath.Join(share, name))
		if err != nil {
			return "", fmt.Errorf("read the scripts of %s: %w", b.Path, err)
		}
		text += string(script) + "\n"
	}
	return text + bootstrapEnd, nil
}

// shareFolder asks a MariaDB server where its scripts are: beside its character sets.
func shareFolder(ctx context.Context, b Binary) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	args := append([]string{"--no-defaults", "--verbose", "--help"}, asRoot()...)
	cmd := exec.CommandContext(ctx, b.Path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its folders: %w", b.Path, err)
	}
	for line := range strings.Lines(string(out)) {
		if path, ok := strings.CutPrefix(line, "character-sets-dir "); ok {
			return filepath.Dir(filepath.Clean(strings.TrimSpace(path))), nil
		}
	}
	return "", fmt.Errorf("ask %s for its folders: no character-sets-dir in its answer", b.Path)
}

// runInstaller runs the command as a process group of its own that does not outlive this process, and the group ends with the
// command's context.
func runInstaller(cmd *exec.Cmd, log *os.File) error {
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = installerAttributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = 5 * time.Second
	done := make(chan error, 1)
	go func() {
		lockThread()
		done <- cmd.Run()
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// syncFolder makes a rename in the folder durable.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync data folder: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync data folder: %w", err)
	}
	return nil
}
