package handlers

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestDescriptionIsServedAsItStands(t *testing.T) {
	t.Parallel()
	got := start(t, nil).get(t, "/openapi.yaml")
	if got.status != http.StatusOK || got.body != string(openAPI) || got.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %d, %d bytes of %s", got.status, len(got.body), got.header.Get("Content-Type"))
	}
}

func TestDescriptionAndRoutesAreTheSame(t *testing.T) {
	t.Parallel()
	d := described(t)
	var documented, routed []string
	paths, _ := d.part("paths")
	for _, path := range names(paths) {
		item, _ := d.part("paths", path)
		for _, method := range names(item) {
			documented = append(documented, strings.ToUpper(method)+" "+path)
			if method == "get" { // which says that HEAD is answered too
				documented = append(documented, "HEAD "+path)
			}
		}
	}
	for _, route := range newEcho(Options{}).Routes() {
		routed = append(routed, route.Method+" "+strings.Replace(route.Path, ":id", "{id}", 1))
	}
	slices.Sort(documented)
	slices.Sort(routed)
	if !slices.Equal(documented, routed) {
		t.Errorf("described\n%q\nrouted\n%q", documented, routed)
	}
}

func TestDescriptionNamesEveryCode(t *testing.T) {
	t.Parallel()
	var coded, documented []string
	for _, k := range kinds() {
		coded = append(coded, k.code)
	}
	list, _ := described(t).part("components", "schemas", "Problem", "properties", "code", "enum")
	for _, code := range list.([]any) {
		documented = append(documented, code.(string))
	}
	slices.Sort(coded)
	slices.Sort(documented)
	if !slices.Equal(slices.Compact(coded), documented) {
		t.Errorf("codes are\n%q\ndescribed are\n%q", coded, documented)
	}
}

func TestDescriptionAndWireTypesAreTheSame(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schema string
		value  any
	}{
		{"Bucket", bucketRequest{}},
		{"Checks", checksRequest{}},
		{"Decision", decision{}},
		{"Verdict", verdict{}},
		{"Results", checksResponse{}},
		{"Result", result{}},
		{"Zone", zone{}},
		{"Zones", zonesResponse{}},
		{"Txn", txn{}},
		{"Health", health{}},
		{"Problem", problem{}},
	} {
		described(t).sameType(t, reflect.TypeOf(test.value), "components", "schemas", test.schema)
	}
	// A check is described as one of two forms; its type has the members of both.
	d := described(t)
	d.sameMember(t, reflect.TypeFor[checkRequest](), "Bucket", "zone_id")
	d.sameMember(t, reflect.TypeFor[checkRequest](), "Bucket", "bucket_key")
	d.sameMember(t, reflect.TypeFor[checkRequest](), "BucketList", "buckets")
	if fields := reflect.TypeFor[checkRequest]().NumField(); fields != 3 {
		t.Errorf("checkRequest has %d fields, the description 3 members", fields)
	}
}

// sameType compares a Go type with the schema at a path of names.
func (d *description) sameType(t *testing.T, typ reflect.Type, at ...string) {
	t.Helper()
	schema, pointer := d.part(at...)
	// A reference with words of its own beside it.
	if ref, ok := schema.(map[string]any)["$ref"].(string); ok {
		d.sameType(t, typ, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		return
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[checkRequest]() {
		return // compared by itself
	}
	at = strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	inSchema, _ := d.part(append(at, "type")...)
	if want := jsonType(typ); inSchema != want {
		t.Errorf("%s is %v, but %s is encoded as %s", pointer, inSchema, typ, want)
		return
	}
	switch typ.Kind() {
	case reflect.Slice:
		d.sameType(t, typ.Elem(), append(at, "items")...)
	case reflect.Struct:
		d.sameMembers(t, typ, at)
	}
}

func (d *description) sameMembers(t *testing.T, typ reflect.Type, at []string) {
	t.Helper()
	var members, required []string
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		members = append(members, name)
		if options != "omitzero" {
			required = append(required, name)
		}
		if found, _ := d.part(append(at, "properties", name)...); found != nil {
			d.sameType(t, typ.Field(i).Type, append(slices.Clone(at), "properties", name)...)
		}
	}
	properties, _ := d.part(append(at, "properties")...)
	listed, _ := d.part(append(at, "required")...)
	var inSchema []string
	if listed != nil {
		for _, name := range listed.([]any) {
			inSchema = append(inSchema, name.(string))
		}
	}
	slices.Sort(members)
	if !slices.Equal(members, names(properties)) {
		t.Errorf("%v has members %q, %s has %q", at, names(properties), typ, members)
	}
	if !slices.Equal(required, inSchema) {
		t.Errorf("%v requires %q, %s always writes %q", at, inSchema, typ, required)
	}
}

func (d *description) sameMember(t *testing.T, typ reflect.Type, schema, member string) {
	t.Helper()
	for i := range typ.NumField() {
		if typ.Field(i).Tag.Get("json") == member {
			d.sameType(t, typ.Field(i).Type, "components", "schemas", schema, "properties", member)
			return
		}
	}
	t.Errorf("%s has no member %s", typ, member)
}

func jsonType(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Slice:
		return "array"
	default:
		return "object"
	}
}

func TestDescriptionAcceptsTheChecksThatTheServerAccepts(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	long := strings.Repeat("🔑", 255)
	nine := strings.TrimSuffix(strings.Repeat(`{"zone_id":1,"bucket_key":"x"},`, 9), ",")
	for body, accepted := range map[string]bool{
		`{"zone_id":1,"bucket_key":"1_42"}`:                     true,
		`{"bucket_key":"1_42","zone_id":1}`:                     true,
		`{"zone_id":1,"bucket_key":"` + long + `"}`:             true,
		`{"zone_id":1,"bucket_key":"` + long + `x"}`:            false,
		`{"zone_id":1,"bucket_key":""}`:                         false,
		`{"zone_id":1,"bucket_key":"\u0000"}`:                   false,
		`{"zone_id":1,"bucket_key":"\u0085"}`:                   false,
		`{"zone_id":1,"bucket_key":"\u00a0"}`:                   true,
		`{"zone_id":0,"bucket_key":"x"}`:                        false,
		`{"zone_id":-1,"bucket_key":"x"}`:                       false,
		`{"zone_id":2147483648,"bucket_key":"x"}`:               false,
		`{"zone_id":1.5,"bucket_key":"x"}`:                      false,
		`{"zone_id":"1","bucket_key":"x"}`:                      false,
		`{"zone_id":null,"bucket_key":"x"}`:                     false,
		`{"zone_id":1}`:                                         false,
		`{"bucket_key":"x"}`:                                    false,
		`{}`:                                                    false,
		`[]`:                                                    false,
		`null`:                                                  false,
		`{"Zone_ID":1,"bucket_key":"x"}`:                        false,
		`{"zone_id":1,"bucket_key":"x","note":"y"}`:             false,
		`{"buckets":[]}`:                                        false,
		`{"buckets":null}`:                                      false,
		`{"buckets":{}}`:                                        false,
		`{"buckets":[{"zone_id":1}]}`:                           false,
		`{"buckets":[{"zone_id":1,"bucket_key":"y","rate":1}]}`: false,
		`{"buckets":[{"zone_id":1,"bucket_key":"y"}]}`:          true,
		`{"buckets":[{"zone_id":1,"bucket_key":"y"},{"bucket_key":"y","zone_id":1}]}`: false,
		`{"buckets":[{"zone_id":1,"bucket_key":"y"},{"zone_id":2,"bucket_key":"y"}]}`: true,
		`{"buckets":[` + nine + `]}`:                                                false,
		`{"zone_id":1,"buckets":[{"zone_id":1,"bucket_key":"y"}]}`:                  false,
		`{"zone_id":1,"bucket_key":"x","buckets":[{"zone_id":1,"bucket_key":"y"}]}`: false,
	} {
		if err := described(t).textMatches("/components/schemas/Check", body); (err == nil) != accepted {
			t.Errorf("described: %s: %v, want accepted %v", body, err, accepted)
		}
		if got := r.post(t, "/v1/check", body); (got.status == http.StatusOK) != accepted {
			t.Errorf("server: %s: %d %s, want accepted %v", body, got.status, got.body, accepted)
		}
	}
}

func TestDescriptionExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	d := described(t)
	seen := 0
	var walk func(node any, pointer string)
	walk = func(node any, pointer string) {
		if list, ok := node.([]any); ok {
			for i, inner := range list {
				walk(inner, fmt.Sprint(pointer, "/", i))
			}
		}
		object, ok := node.(map[string]any)
		if !ok {
			return
		}
		if schema, ok := object["schema"]; ok && schema != nil {
			values := []any{}
			if example, ok := object["example"]; ok {
				values = append(values, example)
			}
			for _, name := range names(object["examples"]) {
				values = append(values, object["examples"].(map[string]any)[name].(map[string]any)["value"])
			}
			for _, value := range values {
				seen++
				if err := d.matches(pointer+"/schema", value); err != nil {
					t.Errorf("example of %s: %v", pointer, err)
				}
			}
		}
		for name, inner := range object {
			walk(inner, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		}
	}
	walk(d.doc, "")
	if seen < 20 {
		t.Errorf("only %d examples were seen", seen)
	}
}
