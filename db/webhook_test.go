package db

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jmoiron/sqlx"

	"velocityd/cmd/velocityd/delivery"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
	"velocityd/tools/enginetest"
)

// inbox is a receiver that takes all events that it does not refuse.
type inbox struct {
	mu      sync.Mutex
	refuses bool
	secret  string
	got     []string
}

func (i *inbox) send(_ context.Context, _ webhook.Webhook, secret string, e event.Event) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refuses && e.Bucket.Key == "alice" {
		return errors.New("the receiver answered 500")
	}
	i.secret = secret
	i.got = append(i.got, e.Bucket.Key+" "+string(e.Type))
	return nil
}

// hook adds a webhook for the events of buckets.
func hook(t *testing.T, store *Store, url string) {
	t.Helper()
	hook := webhook.Webhook{URL: url, Types: []event.Type{"bucket.*"}}
	if _, err := store.Records.AddWebhook(t.Context(), hook, webhook.NewSecret(), "ann"); err != nil {
		t.Fatal(err)
	}
}

// deliver makes all events older than the lag, and takes a turn.
func (i *inbox) deliver(t *testing.T, d *enginetest.Database, s *Store) {
	t.Helper()
	enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE")
	runs, err := s.WebhookRunner(i.send).Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Err != nil {
			t.Error(run.Err)
		}
	}
}

func TestWebhookGetsOrderedEventsWithFiniteRetries(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		ctx, box := t.Context(), &inbox{refuses: true}
		lock := func(key string) {
			t.Helper()
			decide(t, store, slices.Repeat(check(user(key)), 2))
		}
		lock("before")
		made, err := store.Records.AddWebhook(ctx, webhook.Webhook{
			URL:   "https://hooks.example.com/",
			Types: []event.Type{"bucket.*"}, Zones: []int64{1},
		}, "whsec_x", "ann")
		if err != nil {
			t.Fatal(err)
		}
		lock("alice")
		lock("bob")
		if err := store.Release(ctx, user("alice"), "ann", "test"); err != nil {
			t.Fatal(err)
		}
		put(t, store, zone(2, 5, time.Minute), "ann") // not asked for
		box.deliver(t, d, store)
		if want := "bob bucket.locked"; strings.Join(box.got, ", ") != want || box.secret != "whsec_x" {
			t.Fatalf("got %v, want %s", box.got, want)
		}
		waiting, err := store.Outbox.Deliveries(ctx, made.ID, 0)
		if err != nil || len(waiting) != 3 || waiting[0].Tries != 1 || waiting[0].Error != "the receiver answered 500" ||
			waiting[1].Tries != 0 ||
			waiting[0].Bucket != user("alice") || waiting[0].NextAt.IsZero() {
			t.Fatalf("waiting: %+v, %v", waiting, err)
		}
		box.deliver(t, d, store) // nothing is due
		enginetest.Exec(t, d.SQL, "UPDATE webhook_delivery SET tries = ?, next_at = UTC_TIMESTAMP(6) WHERE tries > 0",
			webhook.MostTries-1)
		box.refuses = true
		box.deliver(t, d, store)
		if list, err := store.Outbox.Webhooks(ctx); err != nil || len(list) != 1 || list[0].State.Dead != 1 ||
			list[0].State.Waiting != 2 ||
			list[0].State.Error == "" || list[0].State.Lag.Duration < time.Minute {
			t.Fatalf("the states are %+v, %v", list, err)
		}
		dead, err := store.Outbox.Deliveries(ctx, made.ID, 0)
		if err != nil || len(dead) != 3 || dead[0].Tries != webhook.MostTries || !dead[0].NextAt.IsZero() ||
			dead[0].Error != "the receiver answered 500" || dead[0].Type != event.BucketLocked {
			t.Fatalf("the dead one and those behind it: %+v, %v", dead, err)
		}
		box.refuses = false
		for _, want := range []int{1, 0} { // the second one finds none, and is no deed
			n, err := store.Records.Resend(service.WithReason(ctx, "it works again"), made.ID, dead[0].EventID, "bob")
			if err != nil || n != want {
				t.Errorf("%d are sent again, %v, want %d", n, err, want)
			}
		}
		audited, err := enginetest.Texts(d.SQL, "SELECT action, principal, COALESCE(reason, ''), JSON_EXTRACT(state_after, "+
			"'$.resent_at') LIKE '\"20%' FROM zone_audit WHERE subject = 'webhook' ORDER BY id")
		if got, want := fmt.Sprint(audited), "[[insert ann  0] [update bob it works again 1]]"; err != nil || got != want {
			t.Errorf("recorded %s, %v, want %s", got, err, want)
		}
		enginetest.Exec(t, d.SQL, "UPDATE webhook_delivery SET next_at = UTC_TIMESTAMP(6)")
		box.deliver(t, d, store)
		want := []string{"bob bucket.locked", "alice bucket.locked"}
		if len(box.got) != 4 || !slices.Equal(box.got[:2], want) {
			t.Errorf("got %v, want %v and two more", box.got, want)
		}
		list, err := store.Outbox.Webhooks(ctx)
		if s := list[0].State; err != nil || s.Waiting+s.Dead != 0 || s.Lag.Duration != 0 || s.Error != "" ||
			s.SucceededAt.IsZero() || s.FailedAt.IsZero() {
			t.Errorf("the state is %+v, %v", s, err)
		}
		if err := store.Records.RemoveWebhook(ctx, made.ID, "bob"); err != nil {
			t.Error(err)
		}
		if err := store.Records.RemoveWebhook(ctx, made.ID, "bob"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("removed again: %v", err)
		}
		if _, err := store.Records.Resend(ctx, made.ID, 0, "bob"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("sent again after the removal: %v", err)
		}
	})
}

// TestSecondInstanceSendsNoEventBesideFirst holds the first one at its first event until the second one has had its
// turn.
func TestSecondInstanceSendsNoEventBesideFirst(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		ctx, second := t.Context(), f.connect(t, d, session.Options{})
		hook(t, store, "https://hooks.example.com/")
		keys := []string{"alice", "bob"}
		for range 2 {
			for _, key := range keys {
				decide(t, store, check(user(key)))
				release(t, store, user(key))
			}
		}
		box, beside := &inbox{}, &inbox{}
		begun, goOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE")
		go func() {
			defer close(done)
			var once sync.Once
			_, err := store.WebhookRunner(func(ctx context.Context, w webhook.Webhook, secret string, e event.Event) error {
				once.Do(func() { close(begun); <-goOn })
				return box.send(ctx, w, secret, e)
			}).Turn(ctx)
			if err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-begun:
		case <-done:
			t.Fatal("the first instance has sent nothing")
		}
		beside.deliver(t, d, second)
		close(goOn)
		<-done
		beside.deliver(t, d, second)
		if len(beside.got) > 0 {
			t.Errorf("the second instance has sent %v", beside.got)
		}
		for _, key := range keys {
			var want, got []string
			for _, of := range typesOf(t, d, user(key)) {
				want = append(want, key+" "+string(of))
			}
			for _, line := range box.got {
				if strings.HasPrefix(line, key) {
					got = append(got, line)
				}
			}
			if len(want) != 6 || !slices.Equal(got, want) {
				t.Errorf("sent %v, want %v", got, want)
			}
		}
	})
}

// TestLateCommittedEventIsNotSkipped has one whose id is taken, and which is committed after a later one.
func TestLateCommittedEventIsNotSkipped(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		ctx, box := t.Context(), &inbox{}
		hook(t, store, "https://hooks.example.com/")
		late, err := d.SQL.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = late.Rollback() }()
		enginetest.Exec(t, late, "INSERT INTO zone_event (created_at, type, zone_id, bucket_key, data) "+
			"VALUES (UTC_TIMESTAMP(6), 'bucket.released', 1, 'late', '{}')")
		decide(t, store, check(user("bob")))
		last := d.Count(t, "SELECT MAX(id) FROM zone_event")
		// Young on slow machines, too.
		enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at + INTERVAL 1 HOUR WHERE id = ?", last)
		if runs, err := store.WebhookRunner(box.send).Turn(ctx); err != nil || len(box.got) > 0 {
			t.Errorf("sent %v before an event with a lower id was committed: %v, %v", box.got, runs, err)
		}
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 2 HOUR")
		box.deliver(t, d, store)
		slices.Sort(box.got)
		if want := []string{"bob bucket.locked", "late bucket.released"}; !slices.Equal(box.got, want) {
			t.Errorf("sent %v, want %v", box.got, want)
		}
	})
}

func TestEachWebhookEditIsAuditedWithoutItsSecret(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		wanted := webhook.Webhook{
			URL: "https://hooks.example.com/", Types: []event.Type{"zone.*"}, Zones: []int64{1, 2},
			Description: "é",
		}
		made, err := store.Records.AddWebhook(t.Context(), wanted, "whsec_hidden", "ann")
		if err != nil || made.CreatedBy != "ann" || made.CreatedAt.IsZero() {
			t.Fatalf("made %+v, %v", made, err)
		}
		want := []string{"insert ann NULL zone.* é", "delete bob zone.* NULL é"}
		enginetest.Exec(t, d.SQL, "UPDATE webhook SET position = 9, error = 'x', failed_at = UTC_TIMESTAMP(6)")
		if f.engine != nil {
			enginetest.Exec(t, d.SQL, "UPDATE webhook SET types = 'token.*'")
			want = []string{want[0], "update NULL zone.* token.* é", "delete bob token.* NULL é"}
		}
		if err := store.Records.RemoveWebhook(t.Context(), made.ID, "bob"); err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := sqlx.NewDb(d.SQL, "mysql").Select(&got, `
SELECT CONCAT_WS(' ', action, COALESCE(principal, 'NULL'),
  COALESCE(JSON_UNQUOTE(JSON_EXTRACT(state_before, '$.types')), 'NULL'),
       COALESCE(JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.types')), 'NULL'),
       JSON_UNQUOTE(JSON_EXTRACT(COALESCE(state_after, state_before), '$.description')))
  FROM zone_audit
 WHERE subject = 'webhook'
   AND zone_id = 0
   AND changed_by LIKE '%@%'
   AND JSON_LENGTH(COALESCE(state_after, state_before)) = 7
 ORDER BY id`); err != nil || !slices.Equal(got, want) {
			t.Errorf("zone_audit has %q, %v; want %q", got, err, want)
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_audit WHERE CONCAT_WS('', state_before, state_after) LIKE '%whsec%'")
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_event")
	})
}

func TestWebhooksAreKeptWithTheirSecretsFromReaders(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		hook(t, store, "https://hooks.example.com/")
		d.WantCount(t, 1, "SELECT COUNT(*) FROM read_webhook")
		d.WantCount(t, 0, "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name "+
			"= 'read_webhook' AND column_name = 'secret'")
		narrow := connect(t, d.ServiceAccount(t), session.Options{})
		box := &inbox{}
		decide(t, narrow, check(user("alice"), user("bob")))
		box.deliver(t, d, narrow)
		if len(box.got) != 2 || ends(t, narrow) != 0 {
			t.Errorf("with the rights of the service: %v", box.got)
		}
	})
}

// TestAReceiverThatHangsDelaysNoOther holds the answer of the first receiver until the second one has events that came
// later.
func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
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
			hook(t, store, receiver.URL)
		}
		lock := func(key string) {
			t.Helper()
			decide(t, store, check(user(key)))
			enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE")
		}
		post, done := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}, Timeout: time.Minute}),
			make(chan error, 1)
		lock("alice")
		go func() {
			runs, err := store.WebhookRunner(post.Send).Turn(ctx)
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
