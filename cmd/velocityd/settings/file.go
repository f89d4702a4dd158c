// Package settings reads the file of a serving command's settings. It must not know any setting.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setting is a line of a file of settings.
type setting struct {
	name   string
	text   string // the value as on the command line: entries of a list have commas between them
	line   int    // from 1
	isList bool
	isUsed bool // neither a flag nor a variable wins over it
}

// file is a file of settings, in the order of its lines.
type file struct {
	path     string
	settings []setting
}

// decode reads names with values, as YAML: a value is a scalar or a list of scalars, and is not empty. A file
// of comments alone has no settings. decode knows no setting. Its errors name path and line and the remedy.
func decode(path string, text []byte) (*file, error) {
	f := &file{path: path}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return f, nil
	} else if err != nil {
		return nil, f.noYAML(err)
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		return nil, fmt.Errorf("%s has a second document: remove the line --- before it", path)
	} else if !errors.Is(err, io.EOF) {
		return nil, f.noYAML(err)
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null":
		return f, nil
	case root.Kind != yaml.MappingNode:
		return nil, f.fault(root.Line, "a setting is a name and a value, such as 'listen: 127.0.0.1:8080'")
	}
	for i := 0; i < len(root.Content); i += 2 {
		if err := f.add(root.Content[i], root.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// noYAML returns the error of a text that is no YAML. The parser's own names the line, if it knows it.
func (f *file) noYAML(err error) error {
	return fmt.Errorf("%s is no YAML: %s: write one setting a line, such as 'listen: 127.0.0.1:8080'", f.path,
		strings.TrimPrefix(err.Error(), "yaml: "))
}

// fault returns an error of a line.
func (f *file) fault(line int, format string, args ...any) error {
	return fmt.Errorf("%s line %d: %w", f.path, line, fmt.Errorf(format, args...))
}

// add reads one setting.
func (f *file) add(name, value *yaml.Node) error {
	s := setting{name: name.Value, line: name.Line, isList: value.Kind == yaml.SequenceNode}
	if name.Kind != yaml.ScalarNode || name.Value == "" {
		return f.fault(name.Line, "a setting needs a name, such as listen")
	}
	for _, before := range f.settings {
		if before.name == s.name {
			return f.fault(s.line, "%s is in line %d already: remove one of them", s.name, before.line)
		}
	}
	entries := []*yaml.Node{value}
	if s.isList {
		entries = value.Content
	}
	var texts []string
	for _, entry := range entries {
		switch {
		case entry.Kind != yaml.ScalarNode:
			return f.fault(entry.Line, "%s takes a value, or a list of values, and nothing nested", s.name)
		case entry.ShortTag() == "!!null" || strings.TrimSpace(entry.Value) == "":
			return f.fault(entry.Line, "%s must not be empty: give it a value, or remove the line", s.name)
		}
		texts = append(texts, entry.Value)
	}
	if len(texts) == 0 {
		return f.fault(s.line, "%s must not be empty: give it a value, or remove the line", s.name)
	}
	s.text = strings.Join(texts, ",")
	f.settings = append(f.settings, s)
	return nil
}
