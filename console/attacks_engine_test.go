package console_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/server"
	"velocityd/console"
	"velocityd/db"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// engineDay is a console on an engine with a day of made-up attempts in zones of users and of addresses, and with
// another zone.
type engineDay struct {
	*enginetest.Database
	b    *browser
	end  time.Time
	last uint64 // id
	rows []string
}

// openDay returns a console on an engine with the attempts that fill writes.
func openDay(t *testing.T, engine *enginetest.Engine, fill func(d *engineDay)) *engineDay {
	t.Helper()
	d := &engineDay{Database: engine.Database(t,
		service.Zone{ID: 1, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}},
		service.Zone{ID: 2, Rate: 50, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}},
		service.Zone{ID: 3, Rate: 5, Window: time.Minute})}
	d.LeaveUnaudited()
	d.end = time.Now().UTC().Truncate(time.Second)
	fill(d)
	for from := 0; from < len(d.rows); from += 1000 {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, reason, "+
			"counted, outcome, check_id, check_buckets) VALUES "+strings.Join(d.rows[from:min(len(d.rows), from+1000)], ", "))
	}
	store, err := db.Open(session.Options{DSN: d.DSN})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.RetentionRunner().Finish(t.Context(), func(retention.Run) {}); err != nil {
		t.Fatal(err)
	}
	all := server.WithPseudonyms(store, nil)
	api := handlers.New(handlers.Options{
		Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}),
		Reader:  all, Webhooks: all, Retention: store.RetentionRunner(),
	})
	pages, err := console.New(console.Options{API: api})
	if err != nil {
		t.Fatal(err)
	}
	p := &place{server: httptest.NewTLSServer(pages)}
	t.Cleanup(p.server.Close)
	d.b = p.browser(t)
	return d
}

// attempt adds an attempt so long before the end, which must be the newest. An empty user or address is left out.
func (d *engineDay) attempt(ago time.Duration, user, address, reason, outcome string) {
	at, blocked := d.end.Add(-ago).Format(session.InstantFormat), 0
	if reason != "" {
		blocked = 1
	}
	quoted := func(text string) string {
		if text == "" {
			return "NULL"
		}
		return "'" + text + "'"
	}
	check := d.last + 1
	for zone, key := range []string{1: user, 2: address} {
		if key != "" {
			d.last++
			d.rows = append(d.rows, fmt.Sprintf("(%d, '%s', %d, '%s', %d, %d, %s, %d, %s, %d, 2)", d.last, at, zone, key, blocked,
				blocked, quoted(reason), 1-blocked, quoted(outcome), check))
		}
	}
}

// noise adds an attempt in the other zone.
func (d *engineDay) noise(ago time.Duration) {
	d.last++
	d.rows = append(d.rows, fmt.Sprintf("(%d, '%s', 3, 'noise', 0, 0, NULL, 1, NULL, NULL, NULL)", d.last,
		d.end.Add(-ago).Format(session.InstantFormat)))
}

// attacked adds an honest morning, and a spray of 40 users of whom the last one is entered, 6 hours ago.
func (d *engineDay) attacked() {
	for i := range 200 {
		d.attempt(20*time.Hour-time.Duration(i)*time.Minute, fmt.Sprint("user", i%50), fmt.Sprint("198.51.100.", i%50), "",
			"success")
	}
	for i := range 40 {
		reason, outcome := "", "failure"
		if i%8 == 7 {
			reason, outcome = "full", ""
		}
		d.attempt(6*time.Hour-time.Duration(i)*time.Second, fmt.Sprint("user", i), "203.0.113.77", reason, outcome)
	}
	d.attempt(6*time.Hour-time.Minute, "rosa", "203.0.113.77", "", "success")
}

const seenSpray = "1 account was entered: <bdi class=\"key\">rosa</bdi>, from <bdi class=\"key\">203.0.113.77</bdi>"

func TestNewerAttemptsHideNoAttack(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*engineDay, time.Duration, int){
		"of another zone": func(d *engineDay, ago time.Duration, _ int) { d.noise(ago) },
		"of these zones": func(d *engineDay, ago time.Duration, i int) {
			d.attempt(ago, fmt.Sprint("late", i%500), fmt.Sprintf("192.0.2.%d", i%250), "", "success")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
				d := openDay(t, engine, func(d *engineDay) {
					d.attacked()
					for i := range 10_000 {
						add(d, 5*time.Hour-time.Duration(i)*1700*time.Millisecond, i)
					}
				})
				for _, path := range []string{"attacks", "attacks?rows=2000", "attacks?rows=200"} {
					_, page := d.b.get(t, path)
					for _, text := range []string{seenSpray, "after <a", ">40 users</a>", ">40 users at once</a>"} {
						if !strings.Contains(page, text) {
							t.Errorf("%s lacks %q:\n%s", path, text, words(page))
						}
					}
				}
			})
		})
	}
}

func TestWholeTimeIsCountedAsBySQL(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := openDay(t, engine, func(d *engineDay) {
			for i := range 3000 { // two days, without an attempt for an hour
				ago := 48*time.Hour - time.Duration(i)*57*time.Second
				if hours := ago.Hours(); hours < 9 || hours > 10 {
					reason := ""
					if i%7 == 0 {
						reason = "full"
					}
					d.attempt(ago, fmt.Sprint("user", i%90), fmt.Sprint("198.51.100.", i%200), reason, "")
				}
			}
		})
		for _, path := range []string{"attacks", "attacks?rows=300", "attacks?within=hour&rows=10", "attacks?within=week&rows=100"} {
			_, page := d.b.get(t, path)
			for filter, column := range map[string]string{"blocked=would_be": "would_block", "blocked=": "1"} {
				text, since, until := wholeNumber(t, page, filter)
				want := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND "+column+" AND created_at >= ? AND "+
					"created_at < ?", since, until)
				if got := number(text); got != want {
					t.Errorf("%s says %d of %s from %s to %s, SQL %d", path, got, filter, since, until, want)
				}
			}
		}
	})
}

func TestNumbersOfAnEngineOpenTheirLists(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := openDay(t, engine, func(d *engineDay) {
			d.attacked()
			for i := range 150 { // a phone, whose attempts are blocked for an hour
				reason, outcome := "", "failure"
				if i > 40 && i < 60 {
					reason, outcome = "locked", ""
				}
				d.attempt(5*time.Hour-time.Duration(i)*110*time.Second, "greta", "198.51.100.23", reason, outcome)
			}
			for i := range 60 {
				d.attempt(10*time.Minute-time.Duration(i)*time.Second, "admin", fmt.Sprint("192.0.2.", i%20), "full", "")
			}
		})
		for _, path := range []string{"attacks", "attacks?rows=300"} {
			_, page := d.b.get(t, path)
			contains(t, page, seenSpray, "1 attack goes on.", "1 is</a> over.")
			d.b.openNumbers(t, page, 14)
		}
		_, page := d.b.get(t, "attacks")
		_, devices, _ := strings.Cut(page, `id="devices"`)
		contains(t, devices[:strings.Index(devices, "</table>")], ">greta<", ">150</a>", "2 min")
	})
}

func TestDenyingTheAddressIsOneForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 100, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	p.SetZone(t, service.Zone{ID: 2, Rate: 100, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for range 12 {
		p.ask(t, of(1, "victim", 2, "203.0.113.9"))
	}
	entered := p.ask(t, of(1, "victim", 2, "203.0.113.9"))
	if errs, err := p.ReportAll(t.Context(),
		[]service.Report{{TxnID: entered[0].TxnID(), Outcome: service.OutcomeSuccess}}); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	b := p.browser(t)
	_, page := b.get(t, "attacks")
	contains(t, page, ">12 attempts</a> at this user")
	_, form, _ := strings.Cut(page, "Deny the address…")
	path, values := formIn(t, form)
	values.Set("reason", "ticket 4711")
	b.posts(t, path, values, 200, "The override holds from now on.", "Always deny", "ticket 4711")
	all, err := p.Overrides(context.Background(), 2, 0, 10)
	if err != nil || len(all) != 1 || all[0].Key != "203.0.113.9" || all[0].Action != service.OverrideDeny {
		t.Errorf("the overrides are %+v, %v", all, err)
	}
}
