package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"velocityd/trusted"
)

// stateFolder is a folder of the service's own, for what must outlast a restart without the
// database: the zones' settings, and the digests of the callers' credentials. It holds no
// bucket keys, attempts, tokens or passwords. A nil stateFolder has files that hold nothing.
type stateFolder struct {
	path   string
	logger *slog.Logger
	files  []*stateFile
	wake   chan struct{} // tells keep that there may be something to write; has room for one
}

// stateVersion is that of the files' forms. A program ignores files of other versions.
const stateVersion = 1

// stateLimit is the longest file that is read, in bytes. 100,000 zones are about 50 MB.
const stateLimit = 256 << 20

// openState returns the folder at path, which it makes if it is missing. It removes what a
// program that was killed while it wrote has left there. It refuses a folder in which other users
// can write: they would say which tokens are good.
func openState(path string, logger *slog.Logger) (*stateFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	if err := trusted.Folder(path); err != nil {
		return nil, fmt.Errorf("look at the state folder: %w", err)
	}
	for _, file := range []string{zonesFile, credentialsFile} {
		left, err := filepath.Glob(filepath.Join(path, file+".*"))
		if err != nil {
			return nil, fmt.Errorf("look into the state folder: %w", err)
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("clear the state folder: %w", err)
			}
		}
	}
	return &stateFolder{path: path, logger: logger, wake: make(chan struct{}, 1)}, nil
}

// keep writes what the files are to hold, as soon as that changes, until ctx ends. Then it
// writes what is left.
func (f *stateFolder) keep(ctx context.Context) {
	if f == nil {
		return
	}
	write := func(bool) {
		for _, file := range f.files {
			file.write()
		}
	}
	poll(ctx, nil, f.wake, write)
	write(true)
}

// stateFile is one file of a state folder. A nil stateFile holds nothing.
type stateFile struct {
	folder *stateFolder
	name   string
	what   string // it holds, in words for the log

	mu     sync.Mutex
	wanted any // what it is to hold; nil: that is not known

	// For recall, and after that for write alone.
	held    []byte      // what it holds; nil: nothing of use
	failing noted[bool] // the last writing has failed
}

// file returns a file of the folder. It must be called before keep.
func (f *stateFolder) file(name, what string) *stateFile {
	if f == nil {
		return nil
	}
	file := &stateFile{folder: f, name: name, what: what}
	f.files = append(f.files, file)
	return file
}

// remember makes form what the file is to hold. It waits for no disk: keep writes the file.
func (f *stateFile) remember(form any) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.wanted = form
	f.mu.Unlock()
	select {
	case f.folder.wake <- struct{}{}:
	default:
	}
}

// write writes what the file is to hold, if it does not hold that. An error is logged, and
// further ones are not until a writing succeeds.
func (f *stateFile) write() {
	f.mu.Lock()
	wanted := f.wanted
	f.mu.Unlock()
	if wanted == nil {
		return
	}
	text, err := json.Marshal(wanted)
	if err == nil && bytes.Equal(text, f.held) {
		return
	}
	if err == nil {
		err = f.folder.write(f.name, text)
	}
	if err == nil {
		f.held = text
	}
	if f.failing.changes(err != nil) && err != nil {
		f.folder.logger.LogAttrs(context.Background(), slog.LevelWarn, "not remembered across a restart",
			slog.String("what", f.what), slog.String("error", err.Error()))
	}
}

// recall reads the file into form, which must be a pointer, and calls use, which returns an
// error if there is something wrong with form. If the file exists and is of no use, recall
// logs why.
func (f *stateFile) recall(form any, use func() error) {
	if f == nil {
		return
	}
	text, err := f.folder.read(f.name, form)
	if err == nil {
		if err = use(); err != nil {
			err = fmt.Errorf("%s is damaged: %w", f.name, err)
		}
	}
	switch {
	case err == nil:
		f.held = text
	case !errors.Is(err, fs.ErrNotExist):
		f.folder.logger.LogAttrs(context.Background(), slog.LevelWarn,
			"ignoring what was remembered: nothing of it is known before the database has been seen",
			slog.String("what", f.what), slog.String("error", err.Error()))
	}
}

// read reads a file into form, which must be a pointer, and returns its text. The error wraps
// fs.ErrNotExist if there is none.
func (f *stateFolder) read(file string, form any) (text []byte, err error) {
	name := filepath.Join(f.path, file)
	if text, err = trusted.Read(name, stateLimit); err != nil {
		return nil, fmt.Errorf("read what is remembered: %w", err)
	}
	var header struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if header.Version != stateVersion {
		return nil, fmt.Errorf("%s has version %d, and this program reads %d", name, header.Version, stateVersion)
	}
	if err := json.Unmarshal(text, form); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return text, nil
}

// write replaces a file in one step: after a crash it is the old one or the new one.
func (f *stateFolder) write(file string, text []byte) (err error) {
	temporary, err := os.CreateTemp(f.path, file+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(temporary.Name(), filepath.Join(f.path, file)); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.sync()
}

// sync makes the name of the new file last.
func (f *stateFolder) sync() error {
	folder, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	return nil
}
