package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"velocityd/internal/spelling"
	"velocityd/service"
)

// File is the named gates of a file, and its domains of Envoy's Rate Limit Service, by their names.
type File struct {
	Gates   map[string]Gate
	Domains map[string]Domain
}

// FaultError is one thing that is wrong in a file.
type FaultError struct {
	Line int // from 1
	Text string
}

func (f FaultError) Error() string { return fmt.Sprintf("line %d: %s", f.Line, f.Text) }

// Gate returns the gate of a name.
func (f File) Gate(name string) (Gate, bool) {
	g, ok := f.Gates[name]
	return g, ok
}

// Domain returns the domain of a name.
func (f File) Domain(name string) (Domain, bool) {
	d, ok := f.Domains[name]
	return d, ok
}

// Names returns the names of the gates in order.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Gates)) }

// Parse reads a file of gates and domains, which is YAML or JSON. The error joins all Faults.
func Parse(text []byte) (file File, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var whole, next yaml.Node
	if err := decoder.Decode(&whole); err != nil && !errors.Is(err, io.EOF) {
		return file, fmt.Errorf("read the gates: %w: write YAML, which is indented by spaces and never by tabs", err)
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return file, errors.New("read the gates: the file must be one document of YAML")
	}
	if len(whole.Content) == 0 {
		return file, FaultError{1, "the file is empty: it must have the member gates, domains, or both"}
	}
	p := parser{}
	file = p.file(whole.Content[0])
	slices.SortFunc(p.faults, func(a, b error) int { return a.(FaultError).Line - b.(FaultError).Line }) //nolint:errorlint,errcheck // all are
	return file, errors.Join(p.faults...)
}

type parser struct{ faults []error }

func (p *parser) fault(at *yaml.Node, text string, args ...any) {
	p.faults = append(p.faults, FaultError{at.Line, fmt.Sprintf(text, args...)})
}

type member struct {
	name  string
	at    *yaml.Node // its name
	value *yaml.Node
}

// members returns the members of an object by their names. If known is not nil, it refuses others.
func (p *parser) members(node *yaml.Node, of string, known []string) map[string]member {
	if node.Kind != yaml.MappingNode {
		p.fault(node, "%s must be an object with members", of)
		return nil
	}
	list := map[string]member{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		m := member{node.Content[i].Value, node.Content[i], node.Content[i+1]}
		_, isTwice := list[m.name]
		switch {
		case m.at.Kind != yaml.ScalarNode || m.value.Kind == yaml.AliasNode || m.at.Tag == "!!merge":
			p.fault(m.at, "%s has an anchor or a name that is no text, and must not", of)
		case isTwice:
			p.fault(m.at, "%s has %s twice", of, m.name)
		case known != nil && !slices.Contains(known, m.name):
			p.fault(m.at, "%s has no member %s: %s", of, m.name, meant(m.name, known))
		default:
			list[m.name] = m
		}
	}
	return list
}

// meant says which member may be meant by a name.
func meant(given string, known []string) string {
	if name := spelling.Nearest(given, known); name != "" {
		return "did you mean " + name + "?"
	}
	return "it can have " + strings.Join(known, ", ")
}

func (p *parser) file(node *yaml.Node) (file File) {
	members := p.members(node, "the file", []string{"gates", "domains"})
	if m, ok := members["gates"]; ok {
		file.Gates = p.gates(m.value)
	}
	if m, ok := members["domains"]; ok {
		file.Domains = p.domains(m.value)
	}
	if len(members) == 0 && len(p.faults) == 0 {
		p.fault(node, "the file lacks the member gates, or domains")
	}
	return file
}

func (p *parser) gates(node *yaml.Node) map[string]Gate {
	gates := map[string]Gate{}
	for name, m := range p.members(node, "gates", nil) {
		if !isName(name) {
			p.fault(m.at, "the name of a gate must be 1 to 64 letters, digits, '-' and '_'")
			continue
		}
		gates[name] = p.gate(name, m.value)
	}
	return gates
}

// isName reports whether a text can be the name of a gate, which stands in paths and in the log, or of a header field.
func isName(text string) bool {
	other := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, other)
}

func (p *parser) gate(name string, node *yaml.Node) Gate {
	of := "gate " + name
	members := p.members(node, of, []string{"buckets", "attempt", "allow", "deny", "busy"})
	g := Gate{Name: name, Answer: DefaultAnswer()}
	if m, ok := members["attempt"]; ok {
		g.Attempt = p.source(m.value, of+", attempt")
	}
	if m, ok := members["allow"]; ok {
		g.Allow = p.status(m, of, allows())
	}
	if m, ok := members["deny"]; ok {
		g.Deny = p.status(m, of, denies())
	}
	if m, ok := members["busy"]; ok {
		g.Busy = Busy(p.text(m, of))
		if !slices.Contains([]Busy{BusyFails, BusyAllows, BusyDenies}, g.Busy) {
			p.fault(m.value, "%s: busy must be 503, allow or deny", of)
		}
	}
	m, ok := members["buckets"]
	switch {
	case !ok && members != nil:
		p.fault(node, "%s lacks the member buckets", of)
	case ok &&
		(m.value.Kind != yaml.SequenceNode || len(m.value.Content) < 1 || len(m.value.Content) > service.MaxBuckets):
		p.fault(m.value, "%s: buckets must be a list of 1 to %d", of, service.MaxBuckets)
	case ok:
		for i, bucket := range m.value.Content {
			g.Buckets = append(g.Buckets, p.bucket(bucket, fmt.Sprintf("%s, bucket %d", of, i+1)))
		}
	}
	return g
}

func (p *parser) bucket(node *yaml.Node, of string) (b Bucket) {
	members := p.members(node, of, []string{"zone", "key", "optional"})
	if members == nil {
		return b
	}
	b.Zone = p.zone(node, members, of)
	if m, ok := members["key"]; ok {
		b.Key = p.source(m.value, of+", key")
	} else {
		p.fault(node, "%s lacks the member key", of)
	}
	if m, ok := members["optional"]; ok {
		text := p.text(m, of)
		if b.IsOptional = text == "true"; !b.IsOptional && text != "false" {
			p.fault(m.value, "%s: optional must be true or false", of)
		}
	}
	return b
}

// zone reads the member zone of a bucket or rule.
func (p *parser) zone(node *yaml.Node, members map[string]member, of string) int64 {
	m, ok := members["zone"]
	if !ok {
		p.fault(node, "%s lacks the member zone", of)
		return 0
	}
	id, err := strconv.ParseInt(p.text(m, of), 10, 64)
	if bucket := (service.Bucket{ZoneID: id, Key: "x"}); err != nil || bucket.Validate() != nil {
		p.fault(m.value, "%s: zone must be the id of a zone, 1 to %d", of, service.MaxZoneID)
	}
	return id
}

// source reads where in a request something stands: an object with one member.
func (p *parser) source(node *yaml.Node, of string) (s Source) {
	members := p.members(node, of, kinds())
	if members == nil {
		return s
	}
	if len(members) != 1 {
		p.fault(node, "%s must have one of the members %s", of, strings.Join(kinds(), ", "))
		return s
	}
	for kind, m := range members {
		text := p.text(m, of)
		if text == "" {
			return s
		}
		var err error
		if s, err = NewSource(Kind(kind), text); err != nil {
			p.fault(m.value, "%s: %v", of, err)
		}
	}
	return s
}

// text returns a scalar, which must not be empty.
func (p *parser) text(m member, of string) string {
	if m.value.Kind != yaml.ScalarNode || m.value.Value == "" || m.value.Tag == "!!null" {
		p.fault(m.value, "%s: %s must be one value", of, m.name)
		return ""
	}
	return m.value.Value
}

func (p *parser) status(m member, of string, known []int) int {
	status, err := strconv.Atoi(p.text(m, of))
	if err != nil || !slices.Contains(known, status) {
		p.fault(m.value, "%s: %s must be %s", of, m.name, oneOf(known))
	}
	return status
}
