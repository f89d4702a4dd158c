package db

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"velocityd/courier"
	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

// TestAReceiverThatHangsDelaysNoOther holds the answer of the first receiver until the second one has events that came later.
func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		ctx := t.Context()
		hangs, letGo, got := make(chan struct{}), make(chan struct{}), make(chan string, 16)
		goOn := sync.OnceFunc(func() { close(letGo) })
		defer goOn()
		var once sync.Once
		for _, take := range []http.HandlerFunc{
			func(_ http.ResponseWriter, r *http.Request) {
				once.Do(func() { close(hangs) })
				select {
				case <-letGo:
				case <-r.Context().Done():
				}
			},
			func(_ http.ResponseWriter, r *http.Request) {
				var e event.Event
				if err := json.UnmarshalRead(r.Body, &e); err != nil {
					t.Error(err)
				}
				got <- e.Key
			},
		} {
			receiver := httptest.NewServer(take)
			t.Cleanup(receiver.Close)
			if _, err := store.Records.AddWebhook(ctx, webhook.Webhook{URL: receiver.URL}, webhook.NewSecret(), "ann"); err != nil {
				t.Fatal(err)
			}
		}
		lock := func(key string) {
			t.Helper()
			decide(t, store, check(user(key)))
			dbtest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE")
		}
		post, done := courier.New(courier.Options{Allowed: []string{"127.0.0.1"}, Timeout: time.Minute}), make(chan error, 1)
		lock("alice")
		go func() {
			runs, err := store.Deliverer(post.Send).Turn(ctx)
			for _, run := range runs {
				if err == nil {
					err = run.Err
				}
			}
			done <- err
		}()
		await := func(key string) {
			t.Helper()
			for {
				select {
				case came := <-got:
					if came == key {
						return
					}
				case err := <-done:
					t.Fatalf("the run has ended before %s came: %v", key, err)
				}
			}
		}
		<-hangs
		await("alice")
		for _, key := range strings.Fields("bob carol") {
			lock(key)
			await(key)
		}
		goOn()
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantAllReceived(t, store)
	})
}

// wantAllReceived wants both webhooks to have received everything.
func wantAllReceived(t *testing.T, store *Store) {
	t.Helper()
	list, err := store.Outbox.Webhooks(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, w := range list {
		if s := w.State; s.Waiting+s.Dead != 0 || s.Error != "" || s.SucceededAt.IsZero() {
			t.Errorf("webhook %d: %+v", w.ID, s)
		}
	}
}
