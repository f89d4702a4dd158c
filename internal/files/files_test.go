package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"velocityd/internal/files"
)

// stranger is a user that is neither root nor the one that runs the tests.
const stranger = 4711

func TestFilesWritableByOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(folder, file string) error
		want    string // of the error of Read; empty: it is read
		secret  string // of the error of ReadSecret, if that is another one
	}{
		"as it is":             {func(string, string) error { return nil }, "", ""},
		"read by its group":    {chmod(0o640), "", ""},
		"read by all":          {chmod(0o644), "", "'chmod o='"},
		"written by its group": {chmod(0o620), "'chmod go-w'", ""},
		"written by all":       {chmod(0o666), "'chmod go-w'", ""},
		"another user's": {
			func(_, file string) error { return os.Chown(file, stranger, -1) },
			"belongs to user 4711", "",
		},
		"a folder for all":       {func(f, _ string) error { return os.Chmod(f, 0o777) }, "'chmod go-w'", ""}, //nolint:gosec // is tested
		"a folder for its group": {func(f, _ string) error { return os.Chmod(f, 0o770) }, "'chmod go-w'", ""}, //nolint:gosec // is tested
		"a folder of another user's": {
			func(folder, _ string) error { return os.Chown(folder, stranger, -1) },
			"belongs to user 4711", "",
		},
		"a sticky folder, as Kubernetes mounts secrets": {func(folder, _ string) error {
			return os.Chmod(folder, 0o777|fs.ModeSticky)
		}, "", ""},
		"another user's in a sticky folder": {func(folder, file string) error {
			return errors.Join(os.Chmod(folder, 0o777|fs.ModeSticky), os.Chown(file, stranger, -1))
		}, "belongs to user 4711", ""},
		"a link": {func(_, file string) error { return linked(file, "a/real") }, "", ""},
		"a link through a link": {func(folder, file string) error {
			return errors.Join(linked(file, "now/real"), os.Rename(filepath.Join(folder, "now"), filepath.Join(folder, "then")),
				os.Symlink("then", filepath.Join(folder, "now")))
		}, "", ""},
		"another user's link": {func(_, file string) error {
			return errors.Join(linked(file, "a/real"), os.Lchown(file, stranger, -1))
		}, "belongs to user 4711", ""},
		"a link into a folder for all": {func(folder, file string) error {
			return errors.Join(linked(file, "a/real"), os.Chmod(filepath.Join(folder, "a"), 0o777)) //nolint:gosec // tested
		}, "'chmod go-w'", ""},
		"a link to itself": {
			func(_, file string) error { return errors.Join(os.Remove(file), os.Symlink(file, file)) },
			"too many links", "",
		},
		"a FIFO": {
			func(_, file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) },
			"no regular file", "",
		},
		"a folder": {
			func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
			"no regular file", "",
		},
		"a device": {
			func(_, file string) error { return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file)) }, "no regular file",
			"no regular file",
		},
		"too long": {func(_, file string) error { return os.Truncate(file, 101) }, "longer than 100 bytes", ""},
		"nothing":  {func(_, file string) error { return os.Remove(file) }, "no such file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			file := filepath.Join(folder, "file")
			if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), c.prepare(folder, file)); errors.Is(
				err, fs.ErrPermission) {
				t.Skip("only root can make files of other users")
			} else if err != nil {
				t.Fatal(err)
			}
			text, err := files.Read(file, 100)
			expect(t, "Read", string(text), err, c.want)
			text, err = files.ReadSecret(file, 100)
			if c.secret != "" {
				c.want = c.secret
			}
			expect(t, "ReadSecret", string(text), err, c.want)
		})
	}
}

func chmod(mode fs.FileMode) func(folder, file string) error {
	return func(_, file string) error { return os.Chmod(file, mode) }
}

// linked makes a file a link to a file in a folder beside it.
func linked(file, target string) error {
	real := filepath.Join(filepath.Dir(file), target)
	return errors.Join(os.Mkdir(filepath.Dir(real), 0o700), os.Rename(file, real), os.Symlink(target, file))
}

func expect(t *testing.T, what, text string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && (err != nil || text != "text"):
		t.Errorf("%s: %q, %v", what, text, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %q, %v, want %q", what, text, err, want)
	case want == "no such file" && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("%s: %v is not fs.ErrNotExist", what, err)
	}
}

func TestFolderInWhichOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]string{
		0o700: "", 0o755: "", 0o775: "'chmod go-w'", 0o777: "'chmod go-w'", 0o777 | fs.ModeSticky: "'chmod go-w'",
	} {
		folder := t.TempDir()
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		if err := files.Folder(folder); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", mode, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Folder(file); err == nil {
		t.Error("a file passes as a folder")
	}
}
