package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static
var static embed.FS

// file is one that pages load, as it goes over the wire.
type file struct {
	media  string
	plain  []byte
	packed func() []byte
}

// files are those that pages load, by a name that has a hash of the content. No tree is served: any other
// name is not found.
type files struct {
	byName map[string]file
	names  map[string]string // with the hash, by that without
}

// readFiles reads the files that are part of the program.
func readFiles() (files, error) {
	f := files{map[string]file{}, map[string]string{}}
	return f, fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		f.add(path.Base(name), text)
		return nil
	})
}

// medias returns the media types of the endings of files. Those of the machine may be others, and a browser that may
// not guess would then refuse the file.
func medias() map[string]string {
	return map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
}

func (f files) add(name string, text []byte) {
	sum := sha256.Sum256(text)
	ending := path.Ext(name)
	hashed := strings.TrimSuffix(name, ending) + "." + hex.EncodeToString(sum[:6]) + ending
	packed := sync.OnceValue(func() []byte { return pack(text, gzip.BestCompression) })
	f.byName[hashed] = file{medias()[ending], text, packed}
	f.names[name] = hashed
}

func (f files) address(name string) (string, error) {
	hashed, ok := f.names[name]
	if !ok {
		return "", fmt.Errorf("there is no file %s", name)
	}
	return Path + "static/" + hashed, nil
}

// ServeHTTP answers with a file, which never changes.
func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := f.byName[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", found.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if takesPacked(w, r) {
		_, _ = w.Write(found.packed())
		return
	}
	_, _ = w.Write(found.plain)
}

func pack(text []byte, level int) []byte {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, level) // the level is one that there is
	_, _ = w.Write(text)
	_ = w.Close()
	return packed.Bytes()
}

// takesPacked reports whether the browser takes gzip, and if so says that it gets that.
func takesPacked(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Vary", "Accept-Encoding")
	takes := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if takes {
		w.Header().Set("Content-Encoding", "gzip")
	}
	return takes
}

// writePacked answers with text, packed if the browser takes that. A page holds no secret that its length could tell to
// another origin: cookies do not go along with requests that another origin makes.
func writePacked(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	if takesPacked(w, r) {
		text = pack(text, gzip.DefaultCompression)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
