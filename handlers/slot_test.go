package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/tools/handlerstest"
)

// slotServer is a server with one slot for a large body, in a bubble's time.
type slotServer struct{ *piped }

// withOneSlot serves f. A check of "panics", "fails" or "comes too late" ends so; one of
// "waits" waits for long.
func withOneSlot(t *testing.T, f func(t *testing.T, h *slotServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			switch checks[0].Buckets[0].Key {
			case "waits":
				time.Sleep(10 * slotHold) // of the bubble's time
			case "panics":
				panic("as asked")
			case "fails":
				return nil, errors.New("as asked")
			case "comes too late":
				return nil, service.NewBusyError(time.Second, "as asked")
			}
			return fixed(service.Decision{CheckedAt: service.At(time.Now())})(ctx, checks)
		})
		s := newServer(Options{Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute})})
		s.slots = newBodySlots(1)
		h := &slotServer{servePipes(s.serve(s.routeCalls), wire.Options{})}
		defer h.end()
		f(t, h)
	})
}

func (h *slotServer) dial(t *testing.T) *slotCaller {
	t.Helper()
	c := &slotCaller{h.piped.dial()}
	t.Cleanup(func() { c.Close() })
	return c
}

// slotCaller is a connection.
type slotCaller struct{ *handlerstest.Line }

// large is a question about a key that is long enough to need a slot.
func large(key string) string {
	return `{"checks":[` + bucketJSON(1, key) + `]}` + strings.Repeat(" ", smallBody)
}

// tells sends a request and returns its status.
func (c *slotCaller) tells(t *testing.T, request string) int {
	t.Helper()
	got, err := c.Ask(request)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return got.Status
}

// fill takes the slot, until its caller ends.
func (h *slotServer) fill(t *testing.T) *slotCaller {
	t.Helper()
	within := h.dial(t)
	within.begin()
	synctest.Wait()
	return within
}

// begin sends all of a request with a large body but its end.
func (c *slotCaller) begin() {
	request := handlerstest.Asks("/v1/checks", large("alice"))
	go func() { _, _ = io.WriteString(c, request[:len(request)-1]) }()
}

// end sends that, and returns the status of the answer.
func (c *slotCaller) end(t *testing.T) int {
	t.Helper()
	return c.tells(t, " ")
}

func TestLargeBodyWithoutSlotIsRefusedUnread(t *testing.T) {
	t.Parallel()
	withOneSlot(t, func(t *testing.T, h *slotServer) {
		within := h.fill(t)
		began := time.Now()
		outside := h.dial(t)
		head, _, _ := strings.Cut(handlerstest.Asks("/v1/checks", large("alice"), "Expect: 100-continue"), "{")
		handlerstest.MustWrite(t, outside, head)
		if got, err := outside.Answer(); err != nil || got.Status != http.StatusServiceUnavailable ||
			got.Header.Get("Retry-After") != "1" {
			t.Errorf("got %+v %v, want a Retry-After, and not to be asked for the body", got, err)
		}
		if waited := time.Since(began); waited != slotTimeout {
			t.Errorf("refused after %s, want %s", waited, slotTimeout)
		}
		if got := within.end(t); got != http.StatusOK {
			t.Errorf("the caller with the slot got %d", got)
		}
	})
}

func TestRefusedWriterReadsAnswerAndKeepsConnection(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"with a length": handlerstest.Asks("/v1/checks", large("alice")),
		"in chunks":     handlerstest.InChunks("/v1/checks", large("alice")),
		"outcomes":      handlerstest.Asks("/v1/outcomes", strings.Repeat(" ", maxBody)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withOneSlot(t, func(t *testing.T, h *slotServer) {
				within, outside := h.fill(t), h.dial(t)
				if got := outside.tells(t, request); got != http.StatusServiceUnavailable {
					t.Errorf("got %d while there was no slot", got)
				}
				within.end(t)
				if got := outside.tells(t, handlerstest.Asks("/v1/checks", large("alice"))); got != http.StatusOK {
					t.Errorf("got %d on the same connection when there was a slot", got)
				}
			})
		})
	}
}

func TestSmallBodiesNeedNoSlot(t *testing.T) {
	t.Parallel()
	withOneSlot(t, func(t *testing.T, h *slotServer) {
		within := h.fill(t)
		began, outside := time.Now(), h.dial(t)
		lone, several := bucketJSON(1, "alice"), `{"checks":[`+bucketJSON(1, "alice")+`]}`
		several += strings.Repeat(" ", smallBody-len(several))
		for name, request := range map[string]string{
			"lone": handlerstest.Asks("/v1/check", lone), "lone in chunks": handlerstest.InChunks("/v1/check", lone),
			"several":           handlerstest.Asks("/v1/checks", several),
			"several in chunks": handlerstest.InChunks("/v1/checks", several),
		} {
			if got := outside.tells(t, request); got != http.StatusOK {
				t.Errorf("%s: got %d", name, got)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("they waited for %s", waited)
		}
		within.end(t)
	})
}

func TestWaitingCallersGetSlotsInTurn(t *testing.T) {
	t.Parallel()
	withOneSlot(t, func(t *testing.T, h *slotServer) {
		within := h.fill(t)
		var waiting []*slotCaller
		for range 3 {
			next := h.dial(t)
			next.begin()
			synctest.Wait()
			waiting = append(waiting, next)
		}
		for _, next := range append([]*slotCaller{within}, waiting...) {
			if got := next.end(t); got != http.StatusOK {
				t.Errorf("got %d", got)
			}
		}
	})
}

func TestSlotIsGivenBackHoweverRequestEnds(t *testing.T) {
	t.Parallel()
	whole := handlerstest.Asks("/v1/checks", large("alice"))
	for name, test := range map[string]struct {
		request string
		leaves  bool // without an answer
		want    int
	}{
		"answered": {request: whole, want: http.StatusOK},
		"no JSON": {
			request: handlerstest.Asks("/v1/checks", strings.Repeat("?", smallBody+1)),
			want:    http.StatusBadRequest,
		},
		"wrong route": {request: handlerstest.Asks("/v1/check", large("alice")), want: http.StatusBadRequest},
		"too large": {
			request: handlerstest.InChunks("/v1/checks", strings.Repeat(" ", maxBody+1)),
			want:    http.StatusRequestEntityTooLarge,
		},
		"fault": {request: handlerstest.Asks("/v1/checks", large("fails")), want: http.StatusInternalServerError},
		"panic": {
			request: handlerstest.Asks("/v1/checks", large("panics")),
			want:    http.StatusInternalServerError,
		},
		"leaves in between": {request: whole[:smallBody], leaves: true},
		"does not listen":   {request: whole, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withOneSlot(t, func(t *testing.T, h *slotServer) {
				c := h.dial(t)
				switch {
				case test.leaves:
					handlerstest.MustWrite(t, c, test.request)
					synctest.Wait()
					c.Close()
				default:
					if got := c.tells(t, test.request); got != test.want {
						t.Errorf("got %d, want %d", got, test.want)
					}
				}
				began := time.Now()
				if got := h.dial(t).tells(t, whole); got != http.StatusOK || time.Since(began) > 0 {
					t.Errorf("the next large body was answered with %d after %s", got, time.Since(began))
				}
			})
		})
	}
}

func TestLargeBodyOfABusyServiceDelaysTheNext(t *testing.T) {
	t.Parallel()
	withOneSlot(t, func(t *testing.T, h *slotServer) {
		if got := h.dial(t).tells(
			t, handlerstest.Asks("/v1/checks", large("comes too late"))); got != http.StatusServiceUnavailable {
			t.Fatalf("got %d, want 503", got)
		}
		time.Sleep(slotTimeout / 2) // of the bubble's time
		began := time.Now()
		if got := h.dial(t).tells(t, handlerstest.Asks("/v1/checks", large("alice"))); got != http.StatusOK {
			t.Errorf("the next one got %d", got)
		}
		if waited := time.Since(began); waited != slotTimeout/2 {
			t.Errorf("the next one waited for %s, want %s", waited, slotTimeout/2)
		}
	})
}

func TestSlowCallerLosesItsSlot(t *testing.T) {
	t.Parallel()
	// Answered by more than a buffer holds.
	many := strings.Repeat(bucketJSON(1, "alice")+",", 200) + large("alice")[len(`{"checks":[`):]
	for name, request := range map[string]string{
		"to read":  handlerstest.Asks("/v1/checks", `{"checks":[`+many),
		"to write": handlerstest.Asks("/v1/checks", large("alice"))[:smallBody],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withOneSlot(t, func(t *testing.T, h *slotServer) {
				handlerstest.MustWrite(t, h.dial(t), request)
				synctest.Wait()
				time.Sleep(largeBodyTimeout) // of the bubble's time
				began := time.Now()
				if got := h.dial(t).tells(t, handlerstest.Asks("/v1/checks", large("bob"))); got != http.StatusOK ||
					time.Since(began) > 0 {
					t.Errorf("another one got %d after %s", got, time.Since(began))
				}
			})
		})
	}
}

func TestCallerAwaitingAnswerKeepsNoSlotFromOthers(t *testing.T) {
	t.Parallel()
	withOneSlot(t, func(t *testing.T, h *slotServer) {
		waits := h.dial(t)
		handlerstest.MustWrite(t, waits, handlerstest.Asks("/v1/checks", large("waits")))
		synctest.Wait()
		began := time.Now()
		if got := h.dial(t).tells(t, handlerstest.Asks("/v1/checks", large("alice"))); got != http.StatusOK ||
			time.Since(began) != slotHold {
			t.Errorf("another one got %d after %s, want 200 after %s", got, time.Since(began), slotHold)
		}
		if got, err := waits.Answer(); err != nil || got.Status != http.StatusOK {
			t.Errorf("the waiting caller got %+v %v", got, err)
		}
	})
}

func TestRefusedCallerIsToldWhenTheQueueAheadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBodySlots(4) // two for one caller
		for range 2 {
			if err := p.wait(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		since := time.Now()
		time.Sleep(4 * time.Second) // of the bubble's time
		p.giveBack(since, "a")
		if err := p.wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 3)
		for range cap(told) {
			go func() { told <- p.wait(t.Context(), "a") }()
		}
		// Three wait, then two, then one; two slots, each kept for 4 s.
		var got []time.Duration
		for range cap(told) {
			var busy *service.BusyError
			if err := <-told; !errors.As(err, &busy) || !errors.Is(err, service.ErrBusy) {
				t.Fatalf("got %v, want a BusyError", err)
			}
			got = append(got, busy.RetryAfter)
		}
		if longest := max(got[0], got[1], got[2]); longest != 6*time.Second || min(got[0], got[1], got[2]) != 2*time.Second {
			t.Errorf("told to come again after %v", got)
		}
	})
}

func TestCallerLeavingSlotQueueIsNotAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBodySlots(1)
		if err := p.wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- p.wait(ctx, "a") }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, service.ErrBusy) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		p.giveBack(time.Now(), "a")
		if err := p.wait(t.Context(), "a"); err != nil {
			t.Errorf("the slot is lost: %v", err)
		}
	})
}
