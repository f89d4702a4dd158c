package db

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"velocityd/api"
	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/event"
)

// EventsOf implements servicetest.Subject.
func (b bench) EventsOf(tb testing.TB, bucket service.Bucket) []event.Event {
	tb.Helper()
	return eventsOf(tb, b.Database, bucket)
}

// eventsOf returns every event of a bucket by id. It holds each, as people get it, against events.schema.json.
func eventsOf(tb testing.TB, d *dbtest.Database, bucket service.Bucket) []event.Event {
	tb.Helper()
	schema := eventSchema(tb)
	events := d.EventsOf(tb, bucket)
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			tb.Fatal(err)
		}
		shown, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			tb.Fatal(err)
		}
		if err := schema.Validate(shown); err != nil {
			tb.Errorf("%s: %v", text, err)
		}
	}
	return events
}

func eventSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.EventSchema))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("events.schema.json", doc); err != nil {
		tb.Fatal(err)
	}
	schema, err := compiler.Compile("events.schema.json")
	if err != nil {
		tb.Fatal(err)
	}
	return schema
}
