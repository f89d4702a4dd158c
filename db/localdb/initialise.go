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

// Statements that run before and after MariaDB's own scripts. Afterwards the only
// account is root@localhost, without a password. The scripts also make anonymous users,
// which would take precedence over 'user'@'%', and a root for the machine's name. Each
// statement must be on one line, because the bootstrap reads line by line.
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

// halfMade is the prefix of a folder in which data is being made.
const halfMade = "init."

// initialise makes a new data folder. It makes it under another name and renames it
// when it is complete, so that a later start does not use the half-made folder of a
// killed process.
func (f *folder) initialise(ctx context.Context, b Binary, log *os.File) error {
	f.removeHalfMade()
	tmp, err := os.MkdirTemp(f.path, halfMade)
	if err != nil {
		return fmt.Errorf("create data folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd, err := installCommand(ctx, b, tmp)
	if err != nil {
		return errors.Join(err, ctx.Err()) // see below
	}
	cmd.Env = append(serverEnviron(), "TMPDIR="+tmp)
	if err := runInstaller(cmd, log); err != nil {
		return errors.Join(err, ctx.Err()) // the error of a killed program does not say that the context has ended
	}
	if err := f.recordEngine(b); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "data"), f.data()); err != nil {
		return fmt.Errorf("put new data in place: %w", err)
	}
	return syncFolder(f.path)
}

// removeHalfMade removes the folders that killed initialisations have left. One that a
// process still uses may stay until next time.
func (f *folder) removeHalfMade() {
	entries, _ := os.ReadDir(f.path)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), halfMade) {
			_ = os.RemoveAll(filepath.Join(f.path, e.Name()))
		}
	}
}

// installCommand returns the engine's command that makes an empty data folder at
// dir/data.
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

// systemTables returns the statements that make the system tables of a MariaDB, from
// the scripts that come with it. mariadb-install-db uses the same scripts. But it needs
// a program of the client's package, and works only where it was installed.
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
		prefix + "system_tables.sql", prefix + "performance_tables.sql", prefix + "system_tables_data.sql",
		"fill_help_tables.sql",
	} {
		script, err := os.ReadFile(filepath.Join(share, name))
		if err != nil {
			return "", fmt.Errorf("read the scripts of %s: %w", b.Path, err)
		}
		text += string(script) + "\n"
	}
	return text + bootstrapEnd, nil
}

// shareFolder asks a MariaDB server for the folder of its character sets, and returns
// the one above, which has its scripts.
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

// runInstaller runs the command in a new process group. The group ends when the
// command's context ends, and when this process ends.
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
