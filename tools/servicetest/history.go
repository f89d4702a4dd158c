package servicetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// HistorySubject is a Subject whose history can be read page by page.
type HistorySubject interface {
	Subject
	service.HistoryStore
	service.CheckHistory
}

// ExerciseHistory tests that the store that open returns keeps the contract of service.HistoryStore. It calls open once
// for each claim; open must return a HistorySubject without zones and txns.
func ExerciseHistory(t *testing.T, open func(t *testing.T) HistorySubject) {
	for name, holds := range map[string]func(*testing.T, historySubject){
		"EveryQueryFindsAllThatMatchesInItsOrder":      everyQueryFindsItsTxns,
		"PagesAreStableWhileTxnsAreRecorded":           pagesAreStable,
		"AscendingPagesEndAtTheLag":                    ascendingPagesEndAtTheLag,
		"AKeyWithoutRowsHasAnEmptyPage":                keyWithoutRows,
		"APageGoesOnFromACursorThatIsNoTxnOfTheBucket": cursorOfNoTxn,
		"APageLooksAtABoundedNumberOfTxns":             pageLooksAtFew,
		"ATxnMovesToNoOtherPageWhenItStopsCounting":    pagesOfReportedTxns,
		"ChecksHaveTheirTxnsAndStandOnOnePage":         checksStandOnOnePage,
		"WrongQueriesAreRefused":                       wrongHistoryQueries,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			holds(t, historySubject{subject: subject{Subject: b}, of: b})
		})
	}
}

// historySubject adds steps for claims to a HistorySubject.
type historySubject struct {
	subject
	of HistorySubject
}

// page returns one page of the history.
func (b historySubject) page(tb testing.TB, q service.HistoryQuery) service.HistoryPage {
	tb.Helper()
	page, err := b.of.History(tb.Context(), q)
	if err != nil {
		tb.Fatalf("history %+v: %v", q, err)
	}
	if len(page.Txns) > q.Limit || page.Next != 0 && page.Next != page.Last {
		tb.Fatalf("history %+v: %d txns, next %d, last %d", q, len(page.Txns), page.Next, page.Last)
	}
	return page
}

// pages returns the txns of all pages.
func (b historySubject) pages(tb testing.TB, q service.HistoryQuery) (txns []service.Txn) {
	tb.Helper()
	for {
		page := b.page(tb, q)
		txns = append(txns, page.Txns...)
		if q.Cursor = page.Next; q.Cursor == 0 {
			return txns
		}
	}
}

// attempts makes txns of all kinds in these buckets, of zones 1 and 2, and returns them by id. They are older than
// the lag, and in two groups an hour apart.
func (b historySubject) attempts(tb testing.TB, buckets ...service.Bucket) (txns []service.Txn) {
	tb.Helper()
	b.zone(tb, 1, 3, time.Hour)
	b.set(tb, service.Zone{ID: 2, Rate: 2, Window: time.Hour, Mode: service.ModeShadow})
	for round := range 6 {
		for i, bucket := range buckets {
			d := b.attempt(tb, fmt.Sprintf("%d-%d", round, i), bucket)
			if outcome := []service.Outcome{"", success, failure}[(round+i)%3]; outcome != "" && !d.Blocked {
				b.wantReport(tb, d.TxnID(), outcome, nil)
			}
		}
		if round == 2 {
			b.age(tb, time.Hour, buckets...)
		}
	}
	b.age(tb, time.Minute, buckets...)
	for _, bucket := range buckets {
		txns = append(txns, b.Txns(tb, bucket)...)
	}
	slices.SortFunc(txns, func(x, y service.Txn) int { return cmp.Compare(x.ID, y.ID) })
	return txns
}

// checksStandOnOnePage asks for the attempts of a user, whose addresses are in another zone, and some in a second one
// of the user.
func checksStandOnOnePage(t *testing.T, b historySubject) {
	for zone := range int64(3) {
		b.zone(t, zone+1, 100, time.Hour)
	}
	user := at(1, "alice")
	var want []string
	for i, check := range [][]service.Bucket{
		{user, at(2, "203.0.113.1")},
		{at(1, "bob")},
		{at(3, "x"), at(2, "203.0.113.2"), user},
		{at(2, "203.0.113.9"), at(3, "y")},
		{at(1, "alice"), at(1, "bob"), at(1, "carol")},
		{user},
	} {
		b.attempt(t, fmt.Sprint("check-", i), check...)
		byZone := func(x, y service.Bucket) int {
			return cmp.Or(cmp.Compare(x.ZoneID, y.ZoneID), cmp.Compare(x.Key, y.Key))
		}
		if i != 3 {
			want = append(want, fmt.Sprint(slices.SortedFunc(slices.Values(check), byZone)))
		}
	}
	slices.Reverse(want)
	for limit := 1; limit <= 7; limit++ {
		var got []string
		q := service.HistoryQuery{Zones: []int64{1}, Order: service.NewestFirst, Limit: limit}
		for {
			page, err := b.of.Checks(t.Context(), q)
			if err != nil || len(page.Checks) > limit {
				t.Fatalf("%d checks of %d, %v", len(page.Checks), limit, err)
			}
			for _, check := range page.Checks {
				var buckets []service.Bucket
				for _, txn := range check.Txns {
					buckets = append(buckets, txn.Bucket)
					if txn.CheckID != check.CheckID || (txn.CheckID == 0) != (len(check.Txns) == 1) || check.LeftOut {
						t.Errorf("check %d of %d txns has txn %+v", check.CheckID, len(check.Txns), txn)
					}
				}
				got = append(got, fmt.Sprint(buckets))
			}
			if q.Cursor = page.Next; q.Cursor == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: the checks %v, want %v", limit, got, want)
		}
	}
}

func everyQueryFindsItsTxns(t *testing.T, b historySubject) {
	all := b.attempts(t, at(1, "alice"), at(2, "alice"), at(1, "bob"), at(2, "'; --"))
	yes, no, none, succeeded := true, false, service.Outcome(""), success
	middle := all[len(all)/2].CreatedAt.Time
	for name, q := range map[string]service.HistoryQuery{
		"all":                  {},
		"zone":                 {Zones: []int64{2}},
		"two zones":            {Zones: []int64{2, 1}},
		"key":                  {Zones: []int64{1}, Keys: []string{"alice"}},
		"forms of a key":       {Zones: []int64{1}, Keys: []string{"alice", "bob", "nobody"}},
		"odd key":              {Zones: []int64{2}, Keys: []string{"'; --"}},
		"blocked":              {Blocked: &yes},
		"not blocked":          {Blocked: &no, Zones: []int64{1}, Keys: []string{"bob"}},
		"would block":          {WouldBlock: &yes},
		"would not block":      {WouldBlock: &no, Zones: []int64{2}},
		"success":              {Outcome: &succeeded},
		"no outcome":           {Outcome: &none, Zones: []int64{1}, Keys: []string{"alice"}},
		"attempt":              {AttemptID: "1-2"},
		"attempt of no key":    {AttemptID: "1-2", Zones: []int64{1}, Keys: []string{"alice"}},
		"unknown attempt":      {AttemptID: "none"},
		"since":                {Since: middle},
		"until":                {Until: middle},
		"key since":            {Zones: []int64{2}, Keys: []string{"alice"}, Since: middle},
		"key until":            {Zones: []int64{2}, Keys: []string{"alice"}, Until: middle, Blocked: &no},
		"an instant":           {Since: middle, Until: middle.Add(time.Microsecond)},
		"before all, by a key": {Zones: []int64{1}, Keys: []string{"alice"}, Until: middle.AddDate(-1, 0, 0)},
	} {
		for _, q.Order = range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
			want := slices.DeleteFunc(slices.Clone(all), func(t service.Txn) bool { return !q.Matches(t) })
			if q.Order == service.NewestFirst {
				slices.Reverse(want)
			}
			for _, q.Limit = range []int{1, 3, service.MaxHistoryPage} {
				if got := b.pages(t, q); !slices.Equal(got, want) {
					t.Errorf("%s, %s, pages of %d:\n got %+v\nwant %+v", name, q.Order, q.Limit, got, want)
				}
			}
		}
	}
}

func pagesAreStable(t *testing.T, b historySubject) {
	alice, bob := at(1, "alice"), at(1, "bob")
	all := b.attempts(t, alice, bob)
	for _, q := range []service.HistoryQuery{{}, {Zones: []int64{1}, Keys: []string{"alice"}}} {
		for _, q.Order = range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
			q.Limit, q.Cursor = 2, 0
			var got []service.Txn
			for range 3 {
				page := b.page(t, q)
				got, q.Cursor = append(got, page.Txns...), page.Last
				b.check(t, alice)
				b.check(t, bob)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(t service.Txn) bool { return !q.Matches(t) })
			if q.Order == service.NewestFirst {
				newest := b.page(
					t, service.HistoryQuery{Zones: q.Zones, Keys: q.Keys, Order: q.Order, Limit: service.MaxHistoryPage})
				want = slices.DeleteFunc(newest.Txns, func(t service.Txn) bool { return t.ID > got[0].ID })
			}
			if !slices.Equal(got, want[:6]) {
				t.Errorf("%+v:\n got %+v\nwant %+v", q, got, want[:6])
			}
		}
	}
}

func ascendingPagesEndAtTheLag(t *testing.T, b historySubject) {
	alice, bob := at(1, "alice"), at(1, "bob")
	b.zone(t, 1, 99, time.Hour)
	b.check(t, alice)
	b.age(t, time.Minute, alice)
	old := b.Txns(t, alice)
	fresh := b.check(t, bob).TxnID()
	b.age(t, -time.Hour, bob) // so that no machine is slow enough for the txn to become old
	for _, zones := range [][]int64{nil, {1}} {
		q := service.HistoryQuery{Zones: zones, Order: service.OldestFirst, Limit: 9}
		page := b.page(t, q)
		if !slices.Equal(page.Txns, old) || page.Next != 0 || page.Last != old[0].ID ||
			!page.ScannedUntil.Equal(old[0].CreatedAt.Time) {
			t.Errorf("oldest first: %+v", page)
		}
		q.Cursor = page.Last
		if page = b.page(t, q); len(page.Txns) != 0 || page.Next != 0 || page.Last != q.Cursor ||
			!page.ScannedUntil.IsZero() {
			t.Errorf("behind the last: %+v", page)
		}
		q.Order, q.Cursor = service.NewestFirst, 0
		if page = b.page(t, q); len(page.Txns) != 2 || page.Txns[0].ID != fresh {
			t.Errorf("newest first: %+v", page)
		}
	}
	q := service.HistoryQuery{Zones: []int64{1}, Keys: []string{"bob"}, Order: service.OldestFirst, Limit: 9}
	if page := b.page(t, q); len(page.Txns) != 0 {
		t.Errorf("oldest of a key first: %+v", page)
	}
}

func keyWithoutRows(t *testing.T, b historySubject) {
	b.attempts(t, at(1, "alice"))
	for _, order := range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
		for _, cursor := range []uint64{0, 3} {
			page := b.page(
				t, service.HistoryQuery{Zones: []int64{1}, Keys: []string{"alic"}, Order: order, Limit: 50, Cursor: cursor})
			if len(page.Txns) != 0 || page.Next != 0 || page.Last != cursor || !page.ScannedUntil.IsZero() {
				t.Errorf("%s from %d: %+v", order, cursor, page)
			}
		}
	}
}

func cursorOfNoTxn(t *testing.T, b historySubject) {
	all := b.attempts(t, at(1, "alice"), at(2, "bob"))
	last := all[len(all)-1].ID
	for _, q := range []service.HistoryQuery{{}, {Zones: []int64{2}}, {Zones: []int64{2}, Keys: []string{"bob"}}} {
		for _, q.Order = range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
			for _, cursor := range []uint64{all[0].ID, all[5].ID, all[6].ID, last, last + 1, last + 1_000_000, 1 << 63} {
				q.Cursor, q.Limit = cursor, service.MaxHistoryPage
				var want []service.Txn
				for _, txn := range all {
					if q.Matches(txn) && txn.ID != cursor && (txn.ID < cursor) == (q.Order == service.NewestFirst) {
						want = append(want, txn)
					}
				}
				if q.Order == service.NewestFirst {
					slices.Reverse(want)
				}
				if got := b.page(t, q).Txns; !slices.Equal(got, want) {
					t.Errorf("%+v:\n got %+v\nwant %+v", q, got, want)
				}
			}
		}
	}
}

func pageLooksAtFew(t *testing.T, b historySubject) {
	const more, atOnce, keys = 500, 500, 100
	b.zone(t, 1, 1, time.Hour)
	var checks []service.Check
	for i := range atOnce {
		checks = append(checks, one(1, fmt.Sprint("user", i%keys)))
	}
	found := b.check(t, at(1, "searched"))
	for range (service.MaxHistoryScan + more) / atOnce {
		b.all(t, checks...)
	}
	q := service.HistoryQuery{Zones: []int64{2}, Order: service.NewestFirst, Limit: 5}
	first := b.page(t, q)
	if len(first.Txns) != 0 || first.Next <= found.TxnID() || first.ScannedUntil.IsZero() {
		t.Fatalf("got %+v, and want no txn and a cursor", first)
	}
	rest := b.page(t, service.HistoryQuery{Order: service.NewestFirst, Limit: service.MaxHistoryPage, Cursor: first.Next})
	if len(rest.Txns) != more+1 {
		t.Errorf("the first page left %d txns, want %d", len(rest.Txns), more+1)
	}
	q.Cursor = first.Next
	if last := b.page(t, q); len(last.Txns) != 0 || last.Next != 0 || last.Last != found.TxnID() {
		t.Errorf("got %+v, and want the end", last)
	}
}

func pagesOfReportedTxns(t *testing.T, b historySubject) {
	b.set(t, service.Zone{ID: 1, Rate: 99, Window: time.Hour, Counts: service.CountsFailures})
	alice := at(1, "alice")
	var want []uint64
	for range 8 {
		want = append(want, b.check(t, alice).TxnID())
	}
	slices.Reverse(want)
	q := service.HistoryQuery{Zones: []int64{1}, Keys: []string{"alice"}, Order: service.NewestFirst, Limit: 2}
	var got []uint64
	for i := range 4 {
		page := b.page(t, q)
		for _, txn := range page.Txns {
			got = append(got, txn.ID)
		}
		q.Cursor = page.Last
		b.wantReport(t, page.Last, success, nil) // which gives its place back
		b.wantReport(t, want[7-i], success, nil)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func wrongHistoryQueries(t *testing.T, b historySubject) {
	now := time.Now()
	right := service.HistoryQuery{Order: service.NewestFirst, Limit: 1}
	b.page(t, right)
	for field, wrong := range map[string]func(q *service.HistoryQuery){
		"key without a zone": func(q *service.HistoryQuery) { q.Keys = []string{"alice"} },
		"key of two zones":   func(q *service.HistoryQuery) { q.Keys, q.Zones = []string{"alice"}, []int64{1, 2} },
		"order":              func(q *service.HistoryQuery) { q.Order = "" },
		"no limit":           func(q *service.HistoryQuery) { q.Limit = 0 },
		"high limit":         func(q *service.HistoryQuery) { q.Limit = service.MaxHistoryPage + 1 },
		"empty interval":     func(q *service.HistoryQuery) { q.Since, q.Until = now, now },
		"attempt_id":         func(q *service.HistoryQuery) { q.AttemptID = "é" },
	} {
		q := right
		wrong(&q)
		if page, err := b.of.History(t.Context(), q); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: got %+v, %v", field, page, err)
		}
	}
}
