package handlers

import (
	"net/http"
	"net/netip"
	"reflect"
	"testing"

	"velocityd/service/access"
)

// callerOf returns the answer of GET /v1/caller.
func (r *running) callerOf(t *testing.T, headers ...string) access.Identity {
	t.Helper()
	got := r.ask(t, http.MethodGet, "/v1/caller", "", headers...)
	who := read[access.Identity](t, got)
	return who
}

func TestACallerIsToldWhoHeIs(t *testing.T) {
	t.Parallel()
	g := guard(t, netip.MustParsePrefix("127.0.0.0/8"))
	headers := g.as("helpdesk", []int64{1, 2}, access.ScopePeek, access.ScopeRelease)
	want := access.Identity{
		ID: 1, Kind: "token", Principal: "helpdesk",
		Caller: access.Caller{Name: "helpdesk", Scopes: []access.Scope{"peek", "release"}, Zones: []int64{1, 2}},
	}
	if got := g.callerOf(t, headers...); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Principal = "ann via helpdesk"
	if got := g.callerOf(t, append(headers, "X-Forwarded-User", "ann")...); !reflect.DeepEqual(got, want) {
		t.Errorf("behind a proxy: %+v, want %+v", got, want)
	}
	g.ask(t, "GET", "/v1/caller", "", append(headers, "X-Forwarded-User", "a", "X-Forwarded-User", "b")...).
		refused(t, http.StatusBadRequest, "invalid_request")
	g.ask(t, "GET", "/v1/caller", "", "X-API-Key", access.NewToken().Reveal()).refused(t, http.StatusUnauthorized,
		"unauthenticated")
}

func TestOpenServiceSaysEverythingIsAllowedToAll(t *testing.T) {
	t.Parallel()
	want := access.Identity{
		IsOpen: true, Caller: access.Caller{Scopes: []access.Scope{access.ScopeAdmin}},
		Principal: "ann",
	}
	if got := start(t, nil).callerOf(t, "X-Forwarded-User", "ann"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
