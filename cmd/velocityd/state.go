package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateFolder is a folder of the service's own, for what must outlast a restart without the
// database: the zones' settings, and the digests of the callers' credentials. It holds no
// bucket keys, attempts, tokens or passwords.
type stateFolder struct {
	path string
}

// stateVersion is that of the files' forms. A program ignores files of other versions.
const stateVersion = 1

// openState returns the folder at path, which it makes if it is missing. It removes what a
// program that was killed while it wrote has left there.
func openState(path string) (*stateFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
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
	return &stateFolder{path: path}, nil
}

// read reads a file into form, which must be a pointer. The error wraps fs.ErrNotExist if there
// is none.
func (f *stateFolder) read(file string, form any) error {
	name := filepath.Join(f.path, file)
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("look at what is remembered: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by other users (mode %04o)", name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read what is remembered: %w", err)
	}
	var header struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return fmt.Errorf("%s is damaged: %w", name, err)
	}
	if header.Version != stateVersion {
		return fmt.Errorf("%s has version %d, and this program reads %d", name, header.Version, stateVersion)
	}
	if err := json.Unmarshal(text, form); err != nil {
		return fmt.Errorf("%s is damaged: %w", name, err)
	}
	return nil
}

// write replaces a file in one step: after a crash it is the old one or the new one.
func (f *stateFolder) write(file string, form any) (err error) {
	text, err := json.Marshal(form)
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
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
