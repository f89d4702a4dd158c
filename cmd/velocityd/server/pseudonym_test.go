package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// Two secret keys, as openssl writes them.
const (
	oldKey = "5f4dcc3b5aa765d61d8327deb882cf995f4dcc3b5aa765d61d8327deb882cf99"
	newKey = "0d107d09f5bbe40cade3de5c71e9e9b70d107d09f5bbe40cade3de5c71e9e9b7"
)

func TestARunningServiceFollowsItsFolderOfKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		folder, ring := t.TempDir(), new(service.Keyring)
		writeFile(t, filepath.Join(folder, "k1"), oldKey)
		keys, err := ReadKeys(folder)
		if err = errors.Join(err, ring.Replace(keys)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		follower := &keyFolder{path: folder, ring: ring, logger: slog.New(slog.NewJSONHandler(&log, nil))}
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			follower.follow(ctx)
		}()
		look := func() string {
			time.Sleep(keyPollPause) // of the bubble's time
			synctest.Wait()          // for the end of its work
			var ids []string
			for _, key := range ring.Keys() {
				ids = append(ids, key.String())
			}
			return strings.Join(ids, " ")
		}
		for _, step := range []struct {
			change func() error
			want   string
		}{
			{func() error { return nil }, "k1"},
			// Half written.
			{func() error { return os.WriteFile(filepath.Join(folder, "k2"), []byte(newKey[:30]), 0o600) }, "k1"},
			{func() error { return os.WriteFile(filepath.Join(folder, "k2"), []byte(newKey), 0o600) }, "k2 k1"},
			{func() error { return os.Rename(folder, folder+"-away") }, "k2 k1"},
			{func() error { return os.Rename(folder+"-away", folder) }, "k2 k1"},
			{func() error { return os.Remove(filepath.Join(folder, "k1")) }, "k2"},
			{func() error { return os.Remove(filepath.Join(folder, "k2")) }, "k2"},
		} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			if got := look(); got != step.want {
				t.Errorf("keys are %q, want %q", got, step.want)
			}
		}
		cancel()
		<-done
		text := log.String()
		if strings.Count(text, "have changed") != 2 || strings.Count(text, "stay as they were") != 3 {
			t.Errorf("logged\n%s", text)
		}
		if strings.Contains(text, oldKey[:8]) || strings.Contains(text, newKey[:8]) {
			t.Errorf("a secret is in the log:\n%s", text)
		}
	})
}
