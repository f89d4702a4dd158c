package docs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// printed returns the last JSON object that a command printed.
func printed(output string) (any, error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "{") {
			var last any // answers end without a line feed, so that two are on one line
			for dec := json.NewDecoder(strings.NewReader(line)); dec.More(); {
				if err := dec.Decode(&last); err != nil {
					return nil, err
				}
			}
			return last, nil
		}
	}
	return nil, fmt.Errorf("no line of JSON in %q", output)
}

// differsInShape says where two JSON values differ: in the members of an object,
// in the kind of a value, or in a list being empty. Numbers, texts and lengths of
// lists may differ.
func differsInShape(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: is %T and not an object", path, got)
		}
		for name := range object {
			if _, ok := want[name]; !ok {
				return fmt.Sprintf("%s/%s: is there and not in the page", path, name)
			}
		}
		for name, value := range want {
			if _, ok := object[name]; !ok {
				return fmt.Sprintf("%s/%s: is in the page and not there", path, name)
			}
			if text := differsInShape(path+"/"+name, value, object[name]); text != "" {
				return text
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || (len(list) == 0) != (len(want) == 0) {
			return fmt.Sprintf("%s: is %v", path, got)
		}
		for i := range min(len(list), len(want)) {
			if text := differsInShape(fmt.Sprintf("%s/%d", path, i), want[i], list[i]); text != "" {
				return text
			}
		}
	default:
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
			return fmt.Sprintf("%s: is %T and in the page %T", path, got, want)
		}
	}
	return ""
}
