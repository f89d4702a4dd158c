package localdb

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	maxLogSize = 8 << 20 // bytes; a longer log is renamed at the next start
	tailBytes  = 4 << 10
	tailLines  = 30
)

// startLog is the server's error log, and the offset in it where this start begins.
type startLog struct {
	file  *os.File
	start int64
}

// openLog opens the log for appending. It renames a long one first, which replaces the
// one that was renamed before.
func (f *folder) openLog() (*startLog, error) {
	path := f.logFile()
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("rename old log: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	start, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &startLog{file: file, start: start}, nil
}

// explain adds to err the last lines that this start has written to the log.
func (l *startLog) explain(err error) error {
	end, seekErr := l.file.Seek(0, io.SeekEnd)
	if seekErr != nil || end == l.start {
		return err
	}
	from := max(l.start, end-tailBytes)
	text := make([]byte, end-from)
	n, _ := l.file.ReadAt(text, from)
	lines := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Errorf("%w\nlast lines of %s:\n  %s", err, l.file.Name(), strings.Join(lines, "\n  "))
}
