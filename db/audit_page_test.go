package db

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/migrations/roles"
	"velocityd/service"
)

// TestTheAuditHasEachChangeWithTheRowBeforeAndAfter reads it by the account of the service.
func TestTheAuditHasEachChangeWithTheRowBeforeAndAfter(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, owner := f.stand(t, session.Options{})
		store := f.connect(t, d.RoleAccount(t, roles.Editor), session.Options{})
		ctx := t.Context()
		put(t, store, zone(1, 5, time.Minute), "ann")
		if _, err := store.Records.PutZone(service.WithReason(ctx, "too strict"), zone(1, 9, time.Minute), service.Match{}, "ann via helpdesk"); err != nil {
			t.Fatal(err)
		}
		add(t, owner, callerOf("shop"))
		if err := store.Release(ctx, user("alice"), "bob", "called us"); err != nil {
			t.Fatal(err)
		}
		read := func(q service.AuditQuery) (done []string, next uint64) {
			t.Helper()
			page, err := store.Records.AuditEntries(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				done = append(done, e.Subject+" "+e.Action)
			}
			return done, page.Next
		}
		all := []string{"bucket release", "token insert", "zone update", "zone insert"}
		now, err := owner.Records.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			query service.AuditQuery
			want  []string
		}{
			"all": {service.AuditQuery{Limit: 9}, all}, "of a zone": {service.AuditQuery{Zones: []int64{1}, Limit: 9}, []string{all[0], all[2], all[3]}},
			"of two zones": {service.AuditQuery{Zones: []int64{1, 2}, Limit: 9}, []string{all[0], all[2], all[3]}},
			"by a person":  {service.AuditQuery{By: "ann", Limit: 9}, all[2:]}, "of tokens": {service.AuditQuery{Subjects: []string{"token"}, Limit: 9}, all[1:2]},
			"updates":  {service.AuditQuery{Actions: []string{"update"}, Limit: 9}, all[2:3]},
			"so far":   {service.AuditQuery{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Limit: 9}, all},
			"long ago": {service.AuditQuery{Until: now.Add(-time.Hour), Limit: 9}, nil}, "later": {service.AuditQuery{Since: now.Add(time.Hour), Limit: 9}, nil},
		} {
			if got, next := read(c.query); !slices.Equal(got, c.want) || next != 0 {
				t.Errorf("%s: %q, and on from %d, want %q", name, got, next, c.want)
			}
		}
		var paged []string
		for q := (service.AuditQuery{Limit: 1}); ; {
			got, next := read(q)
			if paged = append(paged, got...); next == 0 {
				break
			}
			q.Cursor = next
		}
		if !slices.Equal(paged, all) {
			t.Errorf("page by page: %q", paged)
		}
		f.holdsStates(ctx, t, store)
	})
}

// holdsStates holds the update of the zone against the one that was made.
func (f form) holdsStates(ctx context.Context, t *testing.T, store *Store) {
	t.Helper()
	page, err := store.Records.AuditEntries(ctx, service.AuditQuery{Actions: []string{"update"}, Limit: 1})
	if err != nil || len(page.Entries) != 1 {
		t.Fatal(page, err)
	}
	e := page.Entries[0]
	var before, after struct{ Rate int }
	if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || before.Rate != 5 || after.Rate != 9 ||
		e.Principal != "ann via helpdesk" || e.Reason != "too strict" || e.Account == "" || e.ZoneID != 1 {
		t.Errorf("the update is %+v, from %s to %s", e, e.Before, e.After)
	}
}
