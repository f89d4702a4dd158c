package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
	"velocityd/service/backtest"
	"velocityd/service/event"
	"velocityd/service/explain"
	"velocityd/service/lockout"
	"velocityd/service/webhook"
	"velocityd/service/zonereport"
)

//go:generate go test . -run TestSchemasAreThoseOfTheTypes -write

// write has the schemas that differ from their types written into openapi.yaml.
var write = flag.Bool("write", false, "write the members of schemas as the types have them") //nolint:gochecknoglobals // a flag

// nouns are the schemas whose members come from a type: their names, their order, which are always there, and the type
// of each is. The words and bounds beside them stay by hand.
func nouns() map[string]reflect.Type {
	list := map[string]reflect.Type{}
	for name, value := range map[string]any{
		"Attempt": service.Recall{}, "Audit": audit.Page{}, "AuditEntry": audit.Entry{},
		"Backtest":    backtest.Result{},
		"BacktestBin": backtest.Bin{}, "BacktestDemand": backtest.Demand{}, "BacktestJob": backtest.Job{},
		"BacktestNumbers":  backtest.Numbers{},
		"BacktestProposal": backtest.Proposal{}, "BacktestRequest": backtest.Query{}, "BacktestSample": backtest.Sample{},
		"Bucket": service.Bucket{}, "BucketTotals": service.BucketTotals{}, "Caller": access.Identity{},
		"Checks":   api.Checks{},
		"Decision": service.Decision{}, "Deliveries": api.Deliveries{}, "Delivery": webhook.Delivery{},
		"Diagnosis": api.Diagnosis{},
		"Event":     event.Event{}, "Events": event.Page{}, "Explanation": explain.Explanation{},
		"Finding":   service.Diagnosis{}, "Health": api.Health{},
		"ListCheck": service.Check{}, "Locked": lockout.Page{}, "LockedBucket": lockout.Lockout{},
		"OutcomeRequest": api.OutcomeRequest{},
		"Override":       service.Override{}, "Overrides": api.Overrides{}, "Peek": service.Peek{}, "Problem": api.Problem{},
		"Receipt": api.Receipt{}, "Receipts": api.Receipts{}, "Released": api.Released{},
		"ReleaseRequest": api.ReleaseRequest{},
		"Releases":       api.Releases{}, "ReleasesRequest": api.ReleasesRequest{}, "Report": service.Report{},
		"ReportBurst": zonereport.Burst{}, "ReportEntry": zonereport.Entry{}, "ReportOther": zonereport.Other{},
		"ReportPart": zonereport.Part{}, "ReportSeries": zonereport.Series{},
		"ReportHour":  zonereport.HourTotals{}, "ReportNear": zonereport.NearKey{}, "ReportStopped": zonereport.KeyTotals{},
		"Resent": api.Resent{},
		"Result": api.Result{}, "Results": api.Results{}, "Retention": service.Retention{},
		"RetentionTask": service.RetentionTask{},
		"SpanTotals":    service.SpanTotals{}, "Token": access.Credential{}, "Tokens": api.Tokens{},
		"Totals": service.Totals{},
		"Txn":    service.Txn{}, "Txns": service.HistoryPage{}, "RecordedChecks": service.CheckPage{},
		"RecordedCheck": service.RecordedCheck{}, "Verdict": service.Verdict{}, "Webhook": webhook.Webhook{},
		"WebhookRequest": api.WebhookRequest{}, "Webhooks": api.Webhooks{}, "ZoneReport": zonereport.Report{},
		"ZoneTotals": service.ZoneTotals{}, "Zones": api.Zones{},
	} {
		list[name] = reflect.TypeOf(value)
	}
	return list
}

// byHand lists the members that the fields of a type do not show: those that other members decide, and those that are
// computed.
func byHand() map[string]struct{ optional, always, computed []string } {
	type words = struct{ optional, always, computed []string }
	return map[string]words{
		"Decision": {computed: []string{"txn_id", "retry_after"}},
		"Verdict":  {optional: []string{"velocity"}, computed: []string{"remaining"}},
		"Peek":     {optional: []string{"velocity", "remaining"}}, "Explanation": {optional: []string{"rate", "velocity"}},
		"Override": {optional: []string{"rate"}}, "Event": {optional: []string{"zone_id", "bucket_key"}},
		"Delivery": {optional: []string{"zone_id", "bucket_key"}},
		"Report":   {always: []string{"outcome"}}, "Webhook": {computed: []string{"secret"}},
	}
}

// member is a member of a schema as a type has it.
type member struct {
	name       string
	kind       string // its type in JSON
	isOptional bool
}

// membersOf returns the members that encoding/json writes of a struct.
func membersOf(t reflect.Type) (list []member) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			for _, m := range membersOf(inner) {
				if inner == reflect.TypeFor[service.Bucket]() {
					m.isOptional = false
				}
				list = append(list, m)
			}
		case strings.Contains(options, "string"):
			list = append(list, member{name, "string", strings.Contains(options, "omit")})
		default:
			list = append(list, member{name, kindOf(f.Type), strings.Contains(options, "omit")})
		}
	}
	if t == reflect.TypeFor[service.Bucket]() {
		for i := range list {
			list[i].isOptional = false
		}
	}
	return list
}

// kindOf returns the type in JSON of the values of a type.
func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) && t.Kind() != reflect.Slice {
		text, _ := json.Marshal(reflect.Zero(t).Interface())
		return map[byte]string{'"': "string", '{': "object"}[text[0]] +
			map[bool]string{true: "integer"}[text[0] >= '0' && text[0] <= '9']
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return "object"
		}
		return "array"
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()) {
			return "string"
		}
	}
	return "object"
}

// schemas is the part of openapi.yaml that describes types.
type schemas map[string]*yaml.Node

// child returns the value of a member of an object, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// kind returns the type in JSON that a schema asks for.
func (s schemas) kind(n *yaml.Node) string {
	if ref := child(n, "$ref"); ref != nil {
		return s.kind(s[ref.Value[strings.LastIndex(ref.Value, "/")+1:]])
	}
	if either := child(n, "oneOf"); either != nil && child(n, "type") == nil {
		return s.kind(either.Content[0])
	}
	if value := child(n, "const"); value != nil && child(n, "type") == nil {
		return map[string]string{"!!int": "integer", "!!str": "string", "!!bool": "boolean"}[value.Tag]
	}
	if kind := child(n, "type"); kind != nil {
		return kind.Value
	}
	return "object"
}

// generated returns the required members and the properties of a schema as its type has them, with the words that the
// schema has by hand.
func (s schemas) generated(name string, t reflect.Type) (required, properties *yaml.Node) {
	words, now := byHand()[name], child(s[name], "properties")
	required = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Tag: "!!seq"}
	properties = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	members := membersOf(t)
	for i := 0; now != nil && i < len(now.Content); i += 2 { // computed ones keep their place
		if slices.Contains(words.computed, now.Content[i].Value) {
			members = slices.Insert(members, min(i/2, len(members)),
				member{name: now.Content[i].Value, kind: s.kind(now.Content[i+1])})
		}
	}
	for _, m := range members {
		value := child(now, m.name)
		if value == nil || s.kind(value) != m.kind {
			value = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Tag: "!!map", Content: []*yaml.Node{
				{Kind: yaml.ScalarNode, Value: "type"}, {Kind: yaml.ScalarNode, Value: m.kind},
			}}
		}
		properties.Content = append(properties.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: m.name}, value)
		if listed := child(s[name], "required"); (!m.isOptional || slices.Contains(words.always, m.name)) &&
			!slices.Contains(words.optional, m.name) &&
			(!slices.Contains(words.computed, m.name) || listed != nil &&
				slices.ContainsFunc(listed.Content, func(n *yaml.Node) bool {
					return n.Value == m.name
				})) {
			required.Content = append(required.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: m.name})
		}
	}
	return required, properties
}

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	var doc yaml.Node
	if err := yaml.Unmarshal(api.Description, &doc); err != nil {
		t.Fatal(err)
	}
	section, s := child(child(doc.Content[0], "components"), "schemas"), schemas{}
	for i := 0; i < len(section.Content); i += 2 {
		s[section.Content[i].Value] = section.Content[i+1]
	}
	text := api.Description
	for name, typ := range nouns() {
		if s[name] == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		required, properties := s.generated(name, typ)
		if sameNames(required, child(s[name], "required"), 1) && sameNames(properties, child(s[name], "properties"), 2) &&
			sameValues(properties, child(s[name], "properties")) {
			continue
		}
		t.Errorf("%s is\n%s\nbut %s has\n%s%s\n`go generate ./api` writes it", name, textOf(t, s[name]), typ,
			textOf(t, required), textOf(t, properties))
		text = replaced(t, text, name, s[name], required, properties)
	}
	if *write {
		if err := os.WriteFile("openapi.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sameNames reports whether two lists have the same names in the same order; every step-th node is one.
func sameNames(a, b *yaml.Node, step int) bool {
	names := func(n *yaml.Node) (list []string) {
		for i := 0; n != nil && i < len(n.Content); i += step {
			list = append(list, n.Content[i].Value)
		}
		return list
	}
	return slices.Equal(names(a), names(b))
}

// sameValues reports whether all members of a are those of b.
func sameValues(a, b *yaml.Node) bool {
	for i := 1; i < len(a.Content); i += 2 {
		if a.Content[i] != b.Content[i] {
			return false
		}
	}
	return true
}

func textOf(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// replaced returns the document with other members of one schema.
func replaced(t *testing.T, doc []byte, name string, schema, required, properties *yaml.Node) []byte {
	t.Helper()
	for field, value := range map[string]*yaml.Node{"required": required, "properties": properties} {
		if old := child(schema, field); old != nil {
			*old = *value
		} else if len(value.Content) > 0 {
			schema.Content = append(schema.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: field}, value)
		}
	}
	lines := "    " + name + ":\n" + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(textOf(t, schema), "      $1")
	block := regexp.MustCompile(`(?m)^    ` + name + `:\n(?:      .*\n|\n)+`)
	return block.ReplaceAllLiteral(doc, []byte(lines))
}
