package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/tools/handlerstest"
)

func TestChangedTLSFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	first, second, third := authority.Issue(t, "first"), authority.Issue(t, "second"), authority.Issue(t, "third")
	files := handlerstest.NewMount(t, first)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, authority.PEM)
	synctest.Test(t, func(t *testing.T) {
		c, err := LoadCertificates(TLSFiles{Cert: files.Cert(), Key: files.Key(), ClientCA: ca})
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan bool, 2)
		c.observe = func(_ time.Time, err error) { told <- err == nil }
		ctx, end := context.WithCancel(t.Context())
		log := new(bytes.Buffer)
		hangups := make(chan os.Signal)
		go c.Watch(ctx, slog.New(slog.NewJSONHandler(log, nil)), hangups)
		for i, step := range []struct {
			change func()
			want   string // the name in force
			ok     []bool // the observer's arguments
		}{
			{func() {}, "first", nil},
			{func() { files.Swap(t, second) }, "second", []bool{true}},
			{func() { files.Swap(t, handlerstest.Pair{Cert: third.Cert, Key: first.Key}) }, "second", []bool{false}},
			{func() {}, "second", nil}, // the same fault is told once
			{func() { hangups <- syscall.SIGHUP }, "second", []bool{false}},
			{func() { files.Swap(t, handlerstest.Pair{Cert: []byte("none"), Key: third.Key}) }, "second", []bool{false}},
			{func() { _ = os.Remove(files.Cert()) }, "second", []bool{false}},
			{func() {
				_ = os.Symlink(filepath.Join("..data", "tls.crt"), files.Cert())
				files.Swap(t, third)
			}, "third", []bool{true}},
			{func() { writeFile(t, ca, []byte("none")) }, "third", []bool{false}},
			{func() { writeFile(t, ca, handlerstest.NewAuthority(t).PEM) }, "third", []bool{true}},
			{func() { hangups <- syscall.SIGHUP }, "third", []bool{true}},
		} {
			step.change()
			time.Sleep(2*lookAgain + 1) // of the bubble's time
			synctest.Wait()
			var heard []bool
			for len(told) > 0 {
				heard = append(heard, <-told)
			}
			inForce := c.current.Load().Certificates[0].Leaf.DNSNames[0]
			if inForce != step.want || !slices.Equal(heard, step.ok) {
				t.Errorf("step %d: %s is in force and %v was told, want %s and %v", i, inForce, heard, step.want, step.ok)
			}
		}
		end()
		if n := strings.Count(log.String(), `"level":"ERROR","msg":"certificate not loaded`); n != 5 {
			t.Errorf("%d errors in the log:\n%s", n, log)
		}
		if text := log.String(); strings.Contains(text, "PRIVATE") ||
			!strings.Contains(text, `"names":["second","127.0.0.1"]`) {
			t.Errorf("the log has a key, or not all names of a certificate:\n%s", text)
		}
	})
}

// writeFile writes a file that the user alone may read.
func writeFile[T string | []byte](t *testing.T, path string, text T) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
