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
	"sync/atomic"

	"velocityd/trusted"
)

// stateVersion is that of the files' forms. A program ignores files of other versions.
const stateVersion = 1

// stateLimit is the longest file that is read, in bytes. 100,000 zones are about 50 MB.
const stateLimit = 256 << 20

// openState makes the folder at path if it is missing, and removes the files that a program has left
// there because it was killed while it wrote. It refuses a folder in which other users can write: they would say
// which tokens are good.
func openState(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if err := trusted.Folder(path); err != nil {
		return fmt.Errorf("look at the state folder: %w", err)
	}
	for _, file := range []string{zonesFile, credentialsFile} {
		left, err := filepath.Glob(filepath.Join(path, file+".*"))
		if err != nil {
			return fmt.Errorf("look into the state folder: %w", err)
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("clear the state folder: %w", err)
			}
		}
	}
	return nil
}

// stateFile is one file of the state folder. Its content outlasts a restart without the database: the
// zones' settings, or the digests of the callers' credentials. It holds no bucket keys, attempts,
// tokens or passwords.
type stateFile struct {
	folder string // of the service's own; "": the file holds nothing
	name   string
	what   string // the name of its content in the log
	logger *slog.Logger
	wake   chan struct{} // tells keep that there may be something to write; has room for one
	wanted atomic.Value  // the content that is to be written; nil: it is not known

	// For recall, and after that for write alone.
	held    []byte      // the content of the disk; nil: it is of no use
	failing noted[bool] // the last writing has failed
}

func newStateFile(folder, name, what string, logger *slog.Logger) *stateFile {
	return &stateFile{folder: folder, name: name, what: what, logger: logger, wake: make(chan struct{}, 1)}
}

// keep writes the wanted content as soon as that changes, until ctx ends, and then once more.
func (f *stateFile) keep(ctx context.Context) {
	poll(ctx, nil, f.wake, func(bool) { f.write() })
	f.write()
}

// remember makes form the wanted content. All forms of a file have one type. It waits for no disk:
// keep writes the file.
func (f *stateFile) remember(form any) {
	if f.folder == "" {
		return
	}
	f.wanted.Store(form)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// write writes the wanted content, unless the file has it. An error is logged, and further ones are
// not until a writing succeeds.
func (f *stateFile) write() {
	wanted := f.wanted.Load()
	if wanted == nil {
		return
	}
	text, err := json.Marshal(wanted)
	if err == nil && bytes.Equal(text, f.held) {
		return
	}
	if err == nil {
		err = f.replace(text)
	}
	if err == nil {
		f.held = text
	}
	if f.failing.changes(err != nil) && err != nil {
		f.logger.LogAttrs(context.Background(), slog.LevelWarn, "not remembered across a restart",
			slog.String("what", f.what), slog.String("error", err.Error()))
	}
}

// recall reads the file into form, which must be a pointer, and calls use, which returns an
// error if there is something wrong with form. If the file exists and is of no use, recall
// logs why.
func (f *stateFile) recall(form any, use func() error) {
	if f.folder == "" {
		return
	}
	text, err := f.read(form)
	if err == nil {
		if err = use(); err != nil {
			err = fmt.Errorf("%s is damaged: %w", f.name, err)
		}
	}
	switch {
	case err == nil:
		f.held = text
	case !errors.Is(err, fs.ErrNotExist):
		f.logger.LogAttrs(context.Background(), slog.LevelWarn,
			"ignoring what was remembered: nothing of it is known before the database has been seen",
			slog.String("what", f.what), slog.String("error", err.Error()))
	}
}

// read reads the file into form, which must be a pointer, and returns its text. The error wraps
// fs.ErrNotExist if there is none.
func (f *stateFile) read(form any) (text []byte, err error) {
	name := filepath.Join(f.folder, f.name)
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

// replace replaces the file in one step: after a crash it is the old one or the new one.
func (f *stateFile) replace(text []byte) (err error) {
	temporary, err := os.CreateTemp(f.folder, f.name+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	if err := os.Rename(temporary.Name(), filepath.Join(f.folder, f.name)); err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return f.sync()
}

// sync makes the name of the new file last.
func (f *stateFile) sync() error {
	folder, err := os.Open(f.folder)
	if err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	return nil
}
