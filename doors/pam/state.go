package pam

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"velocityd/internal/files"
)

const (
	// right is the line behind the attempt whose password was right. No attempt id of this package is it.
	right = "right"
	// mostBytes bounds a file. Beyond it the earlier tries are forgotten: they count as failures all the same.
	mostBytes = 4 << 10
	// mostSwept bounds how many files a check looks at.
	mostSwept = 512
)

// Folder has a file for each program and user with tries that have no outcome yet. A line is the id of an attempt; it
// is empty if the try was blocked, and says "right" where the password was. The folder is root's alone.
type Folder struct{ root *os.Root }

// OpenFolder opens the folder at path, and makes it if its parent is there. The error names the cure if others than the
// user that runs the program could write in it.
func OpenFolder(path string) (*Folder, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := files.Folder(path); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close ends the use of the folder.
func (f *Folder) Close() { _ = f.root.Close() }

// add remembers a try after the earlier ones.
func (f *Folder) add(name, attempt string) error { return f.appendLine(name, attempt, os.O_CREATE) }

// mark says that the password of the last try was right. Where there is no try, it does nothing.
func (f *Folder) mark(name string) error {
	if err := f.appendLine(name, right, 0); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *Folder) appendLine(name, line string, flags int) (err error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || info.Size() > mostBytes-int64(len(line))-1 {
		if err := errors.Join(err, file.Truncate(0)); err != nil {
			return err
		}
	}
	_, err = io.WriteString(file, line+"\n")
	return err
}

// take forgets the tries and returns them. isMarked says that the password of the last one was right.
func (f *Folder) take(name string) (attempts []string, isMarked bool, err error) {
	file, err := f.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, file.Close(), f.root.Remove(name)) }()
	text, err := io.ReadAll(io.LimitReader(file, mostBytes))
	if err != nil {
		return nil, false, err
	}
	attempts, isMarked = parseTries(string(text))
	return attempts, isMarked, nil
}

// parseTries reads a file. The last try is marked only if the mark follows it at once and ends the file.
func parseTries(text string) (attempts []string, isMarked bool) {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		isMarked = line == right && last != "" && last != right
		if line != "" && line != right {
			attempts = append(attempts, line)
		}
		last = line
	}
	return attempts, isMarked
}

// sweep removes files of programs that have ended. It leaves alone those that it cannot read.
func (f *Folder) sweep() {
	folder, err := f.root.Open(".")
	if err != nil {
		return
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(mostSwept)
	for _, name := range names {
		if p, ok := processOfState(name); ok && !p.lives() {
			_ = f.root.Remove(name)
		}
	}
}

// Process is a process of the operating system. Another one that gets its number later is another Process, because its
// start is.
type Process struct {
	id    int
	start uint64 // since the boot, in clock ticks
}

// Parent returns the process that has started this one.
func Parent() (Process, error) {
	id := os.Getppid()
	start, err := startOf(id)
	return Process{id, start}, err
}

func (p Process) lives() bool {
	start, err := startOf(p.id)
	return err == nil && start == p.start || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// stateOf returns the name of the file with the tries of a user. The user's name is not in it.
func (p Process) stateOf(l Login) string {
	sum := sha256.Sum256([]byte(l.Service + "\x00" + l.User))
	return fmt.Sprintf("%d.%d.%x", p.id, p.start, sum[:8])
}

// processOfState returns the process of a name that stateOf has made.
func processOfState(name string) (p Process, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return p, false
	}
	id, err := strconv.ParseInt(parts[0], 10, 32)
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	return Process{int(id), start}, err == nil && err2 == nil && id > 0
}

// startOf returns when a process has started.
func startOf(id int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "stat"))
	if err != nil {
		return 0, err
	}
	return parseStart(string(text))
}

// parseStart returns field 22 of proc_pid_stat(5). Field 2, the program's name, is in parentheses and may have some
// itself.
func parseStart(stat string) (uint64, error) {
	const place = 22 - 3 // behind the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= place {
		return 0, errors.New("/proc does not say when the program has started")
	}
	return strconv.ParseUint(fields[place], 10, 64)
}
