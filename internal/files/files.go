// Package files reads files that steer the program: passwords, secret keys, certificates, and the program's own memory.
// It refuses a file that another user may have written. It must not know the purpose of a file.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Limits of files, in bytes.
const (
	ShortLimit = 64 << 10 // of a file that holds one key, one token or one DSN
	LongLimit  = 4 << 20  // of a file of certificates
)

// Read returns the content of a file, which may be a link to another one. The file and every link to it must belong to
// the user that runs the program or to root, no other user may be able to write the file or to put another one in its
// place, and it must be a regular file of at most limit bytes. Read does not wait: it refuses a FIFO. The error names
// the cure, repeats nothing of the file, and wraps fs.ErrNotExist if there is no file. Read does NOT look at folders
// above the one of the file.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, 0o022) }

// ReadSecret is Read for a file that all users of the machine must not be able to read. The file's group may.
func ReadSecret(path string, limit int64) ([]byte, error) { return read(path, limit, 0o026) }

// At most mostLinks links lead to a file, as on Linux.
const mostLinks = 40

func read(path string, limit int64, refused fs.FileMode) ([]byte, error) {
	for range mostLinks {
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if err := checkPlace(path, info); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return readFile(path, limit, refused)
		}
		target, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Dir(path) + string(filepath.Separator) + target // Join would resolve .. before links
		}
		path = target
	}
	return nil, fmt.Errorf("%s: too many links", path)
}

// checkPlace returns an error if another user may have put a file or a link in its place.
func checkPlace(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	around, err := os.Stat(folder)
	if err != nil {
		return err
	}
	// In a folder with the sticky bit, such as the one in which Kubernetes mounts secrets, users cannot replace files of
	// others.
	if around.Mode()&fs.ModeSticky != 0 {
		return checkOwner(folder, around)
	}
	return Folder(folder)
}

// Folder returns an error with the cure, unless the folder belongs to the user that runs the program or to root, and no
// other user can write in it.
func Folder(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users of this machine can put files into the folder %s (mode %04o): run 'chmod go-w' on "+
			"it, or name a folder in it",
			path, info.Mode().Perm())
	}
	return checkOwner(path, info)
}

func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the system does not say whose it is", path)
	}
	if own := os.Geteuid(); stat.Uid != 0 && int(stat.Uid) != own {
		return fmt.Errorf("%s belongs to user %d, and must belong to root or to the user who runs velocityd (%d): run "+
			"'chown' on it, after a look at its content",
			path, stat.Uid, own)
	}
	return nil
}

// readFile reads a file that is no link, unless its mode has one of the bits in refused.
func readFile(path string, limit int64, refused fs.FileMode) (text []byte, err error) {
	// Without O_NONBLOCK, opening a FIFO waits for its writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat() // of the very file that is read
	if err != nil {
		return nil, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case mode.Perm()&refused&0o022 != 0:
		return nil, fmt.Errorf(
			"other users of this machine can change %s (mode %04o): run 'chmod go-w' on it, after a look at its content",
			path, mode.Perm())
	case mode.Perm()&refused != 0:
		return nil, fmt.Errorf(
			"everybody on this machine can read %s (mode %04o): run 'chmod o=' on it, and think of a new secret",
			path,
			mode.Perm())
	}
	text, err = io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return text, nil
}
