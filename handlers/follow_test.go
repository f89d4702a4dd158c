package handlers

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

// following is a follower.
type following struct {
	blocks chan string // the blocks of the stream, without the lines' ends; closed at its end
}

// follow asks to follow the history, and fails unless the stream begins.
func (r *running) follow(t *testing.T, query string, headers ...string) following {
	t.Helper()
	return r.followPath(t, "/v1/txns/follow"+query, headers...)
}

// followPath asks for a stream of events, and fails unless it begins.
func (r *running) followPath(t *testing.T, path string, headers ...string) following {
	t.Helper()
	response, err := r.http.Do(r.request(t, "GET", path, "", headers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() }) // the goroutine below ends by it
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d of %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	f := following{blocks: make(chan string, 100)}
	go func() {
		defer close(f.blocks)
		lines := bufio.NewScanner(response.Body)
		block := ""
		for lines.Scan() {
			if lines.Text() == "" {
				f.blocks <- block
				block = ""
				continue
			}
			block += lines.Text() + " "
		}
	}()
	if first := f.read(t); first != "retry: 3000 " {
		t.Fatalf("the stream begins with %q", first)
	}
	return f
}

// next waits for the next event, which must hold part. It skips positions.
func (f following) next(t *testing.T, part string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		block := f.read(t)
		switch {
		case time.Now().After(deadline):
			t.Fatalf("%q does not come", part)
		case strings.Contains(block, part):
			return
		case strings.Contains(block, "data: "):
			t.Fatalf("got %q, want %q", block, part)
		}
	}
}

// read returns the next block.
func (f following) read(t *testing.T) string {
	t.Helper()
	select {
	case block, goesOn := <-f.blocks:
		if !goesOn {
			t.Fatal("the stream has ended")
		}
		return block
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return ""
}

// ends waits for the end of the stream.
func (f following) ends(t *testing.T) {
	t.Helper()
	select {
	case block, goesOn := <-f.blocks:
		if goesOn {
			t.Fatalf("got %q, want the end", block)
		}
	case <-time.After(time.Minute):
		t.Fatal("the stream does not end")
	}
}

func TestFollowersGetMatchingTxnsOnceAndResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHistoricBy(t, servePiped, nil)
		h.record(t, 1, "before")
		all, alices := h.follow(t, ""), h.follow(t, "?zone=1&key=ALICE")
		late := h.follow(t, "?after=1&zone=2")
		for _, f := range []following{all, alices} { // what is recorded from now on comes
			if block := f.read(t); block != ": alive id: 1 " {
				t.Fatalf("the position is %q", block)
			}
		}
		h.record(t, 1, "bob", "alice")
		h.record(t, 2, "x")
		all.next(t, `id: 2 data: {"id":`)
		all.next(t, `"bucket_key":"alice"`)
		all.next(t, `"bucket_key":"x"`)
		alices.next(t, `"bucket_key":"alice"`)
		late.next(t, `"bucket_key":"x"`)
		again := h.follow(t, "?after=3", "Last-Event-ID", "1") // the header wins
		for _, key := range []string{"bob", "alice", "x"} {
			again.next(t, `"bucket_key":"`+key+`"`)
		}
		h.record(t, 1, "alice", "carol")
		for _, f := range []following{all, again, alices} {
			f.next(t, `"bucket_key":"alice"`)
		}
		all.next(t, `"bucket_key":"carol"`)
		h.ask(t, "HEAD", "/v1/txns/follow", "").answered(t, http.StatusOK)
	})
}

func TestFollowerWithoutMatchesIsToldItsPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHistoricBy(t, servePiped, nil)
		h.record(t, 1, "alice", "bob")
		f := h.follow(t, "?after=1&zone=2")
		for deadline := time.Now().Add(time.Minute); f.read(t) != ": alive id: 2 "; {
			if time.Now().After(deadline) {
				t.Fatal("the position stays behind")
			}
		}
	})
}

func TestAFollowerIsToldWhyHisStreamEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		auth, credentials := authOf(t, memory.New())
		running, stop := context.WithCancel(t.Context())
		h := startHistoricBy(t, servePiped, func(o *Options) { o.Auth, o.Running = auth, running })
		revoked := credentials.AddToken(access.Caller{Name: "gone", Scopes: []access.Scope{access.ScopeHistory}})
		kept := credentials.AddToken(access.Caller{Name: "kept", Scopes: []access.Scope{access.ScopeHistory}})
		leaver := h.follow(t, "", "Authorization", "Bearer "+revoked.Reveal())
		stayer := h.follow(t, "", "Authorization", "Bearer "+kept.Reveal())
		stayer.read(t)        // the position
		credentials.Revoke(1) // the first one
		leaver.next(t, `"code":"unauthenticated"`)
		leaver.ends(t)
		h.record(t, 1, "alice")
		stayer.next(t, "alice")
		stop()
		stayer.next(t, `event: problem data: {"type":"about:blank","title":"Service Unavailable","status":503`)
		stayer.ends(t)
		h.ask(t, "GET", "/v1/txns/follow", "", "Authorization", "Bearer "+kept.Reveal()).refused(
			t, http.StatusServiceUnavailable, "not_ready")
	})
}

func TestFollowerIsToldOfUnreadableHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := &longHistory{Store: memory.New(), pages: 1, err: service.ErrBusy}
		f := startBy(t, servePiped, func(o *Options) { o.Reader = broken }).follow(t, "?after=5000") // behind the page
		f.next(t, `"code":"busy"`)
		f.ends(t)
	})
}
