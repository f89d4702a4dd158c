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

// accountsSQL leaves MariaDB with root@localhost alone: its installer also makes anonymous users, which would win over
// 'user'@'%', and a root for the machine's own name. One statement a line: the bootstrap reader wants it so.
const accountsSQL = `DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> 'localhost');
DELETE FROM mysql.proxies_priv WHERE User = '' OR Host <> 'localhost';
`

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
		return err
	}
	cmd.Env = append(serverEnviron(), "TMPDIR="+tmp)
	if err := runInstaller(cmd, log); err != nil {
		return errors.Join(err, ctx.Err()) // killed at the context's end, it does not say so itself
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
	installer := b.installer()
	if installer == "" {
		return nil, fmt.Errorf("find mariadb-install-db for %s: %w: %s", b.Path, ErrNotFound, MariaDB.installHint())
	}
	accounts := filepath.Join(dir, "accounts.sql")
	if err := os.WriteFile(accounts, []byte(accountsSQL), 0o600); err != nil {
		return nil, fmt.Errorf("write accounts: %w", err)
	}
	// --force skips the look-up of the machine's name, which may take long and is of no use here.
	return exec.CommandContext(ctx, installer, "--no-defaults", "--datadir="+data, "--force", "--skip-test-db",
		"--auth-root-authentication-method=normal", "--extra-file="+accounts, redoLog(b.Engine)), nil
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
