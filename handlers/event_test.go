package handlers

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
	"velocityd/service/memory"
)

// eventSchema returns events.schema.json, ready to be held against events.
func eventSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.EventSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("events.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaHasExampleOfEachAcceptedType(t *testing.T) {
	t.Parallel()
	schema := eventSchema(t)
	var text struct {
		OneOf []struct {
			Examples []map[string]any
		}
	}
	if err := json.Unmarshal(api.EventSchema, &text); err != nil {
		t.Fatal(err)
	}
	shown := map[event.Type]bool{}
	for _, one := range text.OneOf {
		for _, example := range one.Examples {
			shown[event.Type(example["type"].(string))] = true
			if err := schema.Validate(example); err != nil {
				t.Errorf("%v", err)
			}
			for _, member := range []string{"data", "type", "id", "timestamp", "version"} {
				lacking := maps.Clone(example)
				if delete(lacking, member); schema.Validate(lacking) == nil {
					t.Errorf("%s without %s is accepted", example["type"], member)
				}
			}
			bare := maps.Clone(example)
			if bare["data"] = map[string]any{}; schema.Validate(bare) == nil {
				t.Errorf("%s with empty data is accepted", example["type"])
			}
		}
	}
	for _, of := range event.Types() {
		if !shown[of] {
			t.Errorf("%s has no example", of)
		}
	}
	if len(shown) != len(event.Types()) {
		t.Errorf("%d types are shown, and there are %d", len(shown), len(event.Types()))
	}
}

// lockOut makes a lockout in each bucket, and moves the clock on.
func (h historic) lockOut(t *testing.T, zone int64, keys ...string) {
	t.Helper()
	h.SetZone(t, service.Zone{ID: zone, Rate: 0, Window: time.Hour, Lockout: time.Hour})
	h.record(t, zone, keys...)
}

func TestEventsArePagedByTypeZoneAndKey(t *testing.T) {
	t.Parallel()
	h := startHistoric(t)
	h.lockOut(t, 1, "alice", "bob", "carol")
	h.lockOut(t, 2, "alice")
	if err := h.Release(t.Context(), service.Bucket{ZoneID: 1, Key: "alice"}, "ann", "test"); err != nil {
		t.Fatal(err)
	}
	h.moved.Add(int64(time.Minute))
	for query, want := range map[string]string{
		"": "alice bucket.released, alice bucket.lock_ended, alice bucket.locked, carol " +
			"bucket.locked, bob bucket.locked, alice bucket.locked",
		"?order=asc&limit=2":                "alice bucket.locked, bob bucket.locked",
		"?order=asc&after=2&limit=1":        "carol bucket.locked",
		"?before=2":                         "alice bucket.locked",
		"?zone=2":                           "alice bucket.locked",
		"?zone=1&key=alice&key=bob&after=1": "bob bucket.locked, alice bucket.lock_ended, alice bucket.released",
		"?type=bucket.released&type=zone.*": "alice bucket.released",
		"?type=bucket.*&zone=1&after=3":     "alice bucket.lock_ended, alice bucket.released",
		"?zone=7":                           "",
	} {
		page := read[event.Page](t, h.get(t, "/v1/events"+query))
		var shown []string
		for _, e := range page.Events {
			shown = append(shown, e.Key+" "+string(e.Type))
		}
		if text := strings.Join(shown, ", "); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
	for _, query := range []string{
		"?type=", "?type=zone.*&type=", "?zone=,1", "?type=bucket", "?type=*", "?type=bucket.nothing", "?key=alice",
		"?limit=0", "?limit=1001", "?order=up", "?before=1&after=2", "?blocked=true", "?zone=0", "?after=x",
	} {
		h.get(t, "/v1/events"+query).refused(t, http.StatusBadRequest, "invalid_request")
	}
}

func TestEventsFitTheirSchemaAndAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHistoricBy(t, servePiped, nil)
		h.lockOut(t, 1, "before")
		schema := eventSchema(t)
		all := h.followPath(t, "/v1/events/follow")
		mine := h.followPath(t, "/v1/events/follow?type=bucket.locked&zone=2&after=1")
		if block := all.read(t); block != ": alive id: 1 " {
			t.Fatalf("the position is %q", block)
		}
		h.lockOut(t, 1, "alice")
		h.lockOut(t, 2, "x")
		all.next(t, `id: 2 data: {"version":1,"id":"2","type":"bucket.locked"`)
		all.next(t, `"bucket_key":"x"`)
		mine.next(t, `"bucket_key":"x"`)
		h.followPath(t, "/v1/events/follow", "Last-Event-ID", "1").next(t, `"bucket_key":"alice"`)
		var page struct{ Events []any }
		if err := json.Unmarshal([]byte(h.get(t, "/v1/events").body), &page); err != nil || len(page.Events) != 3 {
			t.Fatalf("%d events, %v", len(page.Events), err)
		}
		for _, e := range page.Events {
			if err := schema.Validate(e); err != nil {
				t.Error(err)
			}
		}
		if got := h.get(t, "/v1/events/schema"); got.body != string(api.EventSchema) ||
			got.header.Get("Content-Type") != "application/schema+json" {
			t.Errorf("the schema: %d %s", got.status, got.header)
		}
	})
}

func TestBoundCallerSeesEventsOfItsZonesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		auth, credentials := authOf(t, memory.New())
		h := startHistoricBy(t, servePiped, func(o *Options) { o.Auth = auth })
		bound := credentials.AddToken(
			access.Caller{Name: "bound", Scopes: []access.Scope{access.ScopeHistory}, Zones: []int64{2}})
		h.lockOut(t, 1, "secret")
		h.lockOut(t, 2, "shown")
		token := []string{"Authorization", "Bearer " + bound.Reveal()}
		if got := h.ask(t, "GET", "/v1/events", "", token...); strings.Contains(got.body, "secret") ||
			!strings.Contains(got.body, "shown") {
			t.Errorf("got %s", got.body)
		}
		h.ask(t, "GET", "/v1/events?zone=1", "", token...).refused(t, http.StatusForbidden, "missing_scope")
		f := h.followPath(t, "/v1/events/follow?after=0", slices.Concat(token, []string{"Last-Event-ID", "1"})...)
		f.next(t, "shown")
	})
}
