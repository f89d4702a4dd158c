package docs_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"velocityd/api"
)

// TestEventMembersHavePlacesInOCSFAndECS holds the table of docs/events.md against the schema.
func TestEventMembersHavePlacesInOCSFAndECS(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| velocityd | OCSF")
	type object struct{ Properties map[string]json.RawMessage }
	var schema struct {
		object
		OneOf []struct {
			Properties struct{ Data object }
		}
	}
	if err := json.Unmarshal(api.EventSchema, &schema); err != nil {
		t.Fatal(err)
	}
	members := map[string]bool{}
	for name := range schema.Properties {
		members[name] = name != "data" // whose members have rows
	}
	for _, one := range schema.OneOf {
		for name := range one.Properties.Data.Properties {
			members["data."+name] = true
		}
	}
	if len(members) < 15 {
		t.Fatalf("the schema has the members %v", members)
	}
	for name, isMapped := range members {
		if isMapped && !strings.Contains(table, "\n| `"+name+"`") {
			t.Errorf("%s has no row", name)
		}
	}
}
