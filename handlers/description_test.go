package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"velocityd/api"
)

// description is openapi.yaml, ready to be held against answers.
type description struct {
	doc      map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

//nolint:gochecknoglobals // loaded once for all tests of the package
var described = func() func(*testing.T) *description {
	load := sync.OnceValues(loadDescription)
	return func(t *testing.T) *description {
		t.Helper()
		d, err := load()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}()

func loadDescription() (*description, error) {
	var read any
	if err := yaml.Unmarshal(api.Description, &read); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	text, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	return &description{doc: doc.(map[string]any), compiler: compiler}, nil
}

// part returns what stands at a path of names, following references, and the
// JSON Pointer of where it really stands; nil if there is nothing.
func (d *description) part(names ...string) (value any, pointer string) {
	var here any = d.doc
	for _, name := range names {
		object, _ := here.(map[string]any)
		here = object[name]
		pointer += "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		object, _ = here.(map[string]any)
		if reference, ok := object["$ref"].(string); ok && len(object) == 1 {
			here, pointer = d.part(strings.Split(strings.TrimPrefix(reference, "#/"), "/")...)
		}
	}
	return here, pointer
}

// names returns the member names of an object in order.
func names(object any) []string {
	members, _ := object.(map[string]any)
	var all []string
	for name := range members {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// matches validates a value, read as the schema package reads JSON, against the
// schema at pointer.
func (d *description) matches(pointer string, value any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile("openapi.json#" + pointer)
	if err != nil {
		return fmt.Errorf("schema %s: %w", pointer, err)
	}
	return schema.Validate(value)
}

func (d *description) textMatches(pointer, text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return d.matches(pointer, value)
}

// template returns the described path that path is one of, or "".
func (d *description) template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	paths, _ := d.part("paths")
	asked := strings.Split(path, "/")
	for _, template := range names(paths) {
		parts := strings.Split(template, "/")
		if last := len(parts) - 1; parts[last] == "{path}" && len(asked) > len(parts) {
			parts = append(parts, slices.Repeat(parts[last:], len(asked)-len(parts))...)
		}
		if slices.EqualFunc(parts, asked, func(part, given string) bool {
			return part == given || strings.HasPrefix(part, "{") && (given != "" || strings.HasPrefix(template, "/gate/"))
		}) {
			return template
		}
	}
	return ""
}

// holds fails if the answer is not one that is described.
func (d *description) holds(t *testing.T, method, path string, got reply) {
	t.Helper()
	template, verb := d.template(path), strings.ToLower(method)
	// Gates answer all methods.
	if method == http.MethodHead || template == pathGate || strings.HasPrefix(template, "/gate/") {
		verb = "get"
	}
	problemSchema := "/components/schemas/Problem"
	if operation, _ := d.part("paths", template, verb); operation == nil {
		want := map[bool]int{true: http.StatusNotFound, false: http.StatusMethodNotAllowed}[template == ""]
		if method == http.MethodOptions && template != "" {
			return
		}
		if got.status != want {
			t.Errorf("%s %s is not described, but answered %d", method, path, got.status)
		}
		if want == http.StatusMethodNotAllowed {
			d.headersHold(t, []string{"components", "responses", "MethodNotAllowed"}, got.header)
		}
		if err := d.textMatches(problemSchema, got.body); method != http.MethodHead && err != nil {
			t.Errorf("%s %s: %s: %v", method, path, got.body, err)
		}
		return
	}
	at := []string{"paths", template, verb, "responses", strconv.Itoa(got.status)}
	response, _ := d.part(at...)
	if response == nil {
		t.Errorf("%s %s: status %d is not described", method, path, got.status)
		return
	}
	d.headersHold(t, at, got.header)
	if content, _ := d.part(append(at, "content")...); content == nil {
		if got.body != "" {
			t.Errorf("%s %s: %d with a body: %s", method, path, got.status, got.body)
		}
		return
	}
	media := append(at, "content", got.header.Get("Content-Type"))
	if found, _ := d.part(media...); found == nil {
		t.Errorf("%s %s: %d with content type %q is not described", method, path, got.status, media[len(media)-1])
		return
	}
	_, pointer := d.part(append(media, "schema")...)
	if !strings.Contains(media[len(media)-1], "json") || method == http.MethodHead {
		return
	}
	texts := []string{got.body}
	if strings.Contains(media[len(media)-1], "ndjson") {
		texts = slices.Collect(strings.Lines(got.body))
	}
	for _, text := range texts {
		if err := d.textMatches(pointer, text); err != nil {
			t.Errorf("%s %s: %s: %v", method, path, text, err)
		}
	}
}

// headersHold holds the headers that are ours against the response's.
func (d *description) headersHold(t *testing.T, response []string, header http.Header) {
	t.Helper()
	documented, _ := d.part(append(response, "headers")...)
	known := map[string]bool{}
	for _, name := range names(documented) {
		at := append(slices.Clone(response), "headers", name)
		required, _ := d.part(append(at, "required")...)
		_, schema := d.part(append(at, "schema")...)
		known[http.CanonicalHeaderKey(name)] = true
		given := header.Get(name)
		if given == "" {
			if required == true {
				t.Errorf("%v: header %s is missing", response, name)
			}
			continue
		}
		var value any = given
		kind, _ := d.part(append(strings.Split(strings.TrimPrefix(schema, "/"), "/"), "type")...)
		if _, err := strconv.Atoi(given); err == nil && kind != "string" {
			value = json.Number(given)
		}
		if err := d.matches(schema, value); err != nil {
			t.Errorf("%v: header %s: %v", response, name, err)
		}
	}
	for name := range header {
		ofHTTP := []string{"Content-Type", "Content-Length", "Date", "Cache-Control", "Connection"}
		if !known[name] && !slices.Contains(ofHTTP, name) {
			t.Errorf("%v: header %s is not described", response, name)
		}
	}
}
