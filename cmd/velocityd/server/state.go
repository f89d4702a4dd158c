package server

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

	"velocityd/internal/files"
)

// stateVersion is that of the files' forms. A program ignores files of other versions.
const stateVersion = 1

// stateLimit is the longest file that is read, in bytes. 100,000 zones are about 50 MB.
const stateLimit = 256 << 20

// openState makes the folder at path if it is missing. It refuses a folder in which other users can write: they would
// say which tokens are good.
func openState(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if err := files.Folder(path); err != nil {
		return fmt.Errorf("look at the state folder: %w", err)
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
	wanted atomic.Value  // of stateForm; nil: the content is not known

	// For recall, and after that for write alone.
	held    []byte      // the content of the disk; nil: it is of no use
	failing noted[bool] // the last writing has failed
}

// stateForm is the content of a file.
type stateForm struct {
	Version int `json:"version"`
	Content any `json:"content"`
}

func newStateFile(folder, name, what string, logger *slog.Logger) *stateFile {
	return &stateFile{folder: folder, name: name, what: what, logger: logger, wake: make(chan struct{}, 1)}
}

// keep writes the wanted content as soon as that changes, until ctx ends, and then once more.
func (f *stateFile) keep(ctx context.Context) {
	poll(ctx, nil, f.wake, func(bool) { f.write() })
	f.write()
}

// remember has keep write the content. It waits for no disk.
func (f *stateFile) remember(content any) {
	if f.folder == "" {
		return
	}
	f.wanted.Store(stateForm{stateVersion, content})
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

// recall reads the file into content, which must be a pointer, and calls use, which returns an error if there is
// something wrong with it. If the file exists and is of no use, recall logs why.
func (f *stateFile) recall(content any, use func() error) {
	if f.folder == "" {
		return
	}
	text, err := files.Read(filepath.Join(f.folder, f.name), stateLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		if err = decodeState(text, content, use); err != nil {
			err = fmt.Errorf("%s is damaged: %w", f.name, err)
		}
	}
	if err != nil {
		f.logger.LogAttrs(context.Background(), slog.LevelWarn,
			"ignoring what was remembered: nothing of it is known before the database has been seen",
			slog.String("what", f.what), slog.String("error", err.Error()))
		return
	}
	f.held = text
}

func decodeState(text []byte, content any, use func() error) error {
	form := stateForm{Content: content}
	err := json.Unmarshal(text, &form)
	switch {
	case form.Version > 0 && form.Version != stateVersion:
		return fmt.Errorf("it has version %d, and this program reads %d", form.Version, stateVersion)
	case err != nil:
		return err
	}
	return use()
}

// replace replaces the file in one step: after a crash it is the old one or the new one. The next writing replaces
// the remains of a killed one.
func (f *stateFile) replace(text []byte) error {
	name := filepath.Join(f.folder, f.name)
	next, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return nil
}
