package ratelimit

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"velocityd/handlers/gate"
	"velocityd/internal/spelling"
	"velocityd/service"
)

// reader collects the contents of the configurations.
type reader struct {
	file   string
	next   int64 // the id of the next zone
	zones  []service.Zone
	left   []RemarkError
	faults []error
}

func (r *reader) fault(line int, text string) {
	r.faults = append(r.faults, RemarkError{r.file, line, text})
}

func (r *reader) leave(at *yaml.Node, text string) {
	r.left = append(r.left, RemarkError{r.file, at.Line, text})
}

// source reads a configuration into the tree of its domain.
func (r *reader) source(s Source, trees map[string][]*node) {
	r.file = s.Name
	decoder := yaml.NewDecoder(bytes.NewReader(s.Text))
	var whole, next yaml.Node
	if err := decoder.Decode(&whole); err != nil && !errors.Is(err, io.EOF) {
		r.fault(1, "this is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		r.fault(1, "the file must be one document of YAML")
		return
	}
	if len(whole.Content) == 0 {
		r.fault(1, "the file is empty: it must have the members domain and descriptors")
		return
	}
	root := r.members(whole.Content[0], "the file", "domain", "descriptors")
	domain := r.text(root["domain"])
	if root != nil && domain == "" {
		r.fault(whole.Content[0].Line, "the file lacks the member domain")
	}
	trees[domain] = r.level(trees[domain], root["descriptors"], domain, nil)
}

// known are all names of members. ratelimit takes them anywhere, and ignores those that have no meaning where they are.
func known() []string {
	return []string{
		"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode",
		"quota_mode", "name", "replaces", "detailed_metric", "value_to_metric", "share_threshold",
	}
}

// members returns the members of an object that have a meaning there.
func (r *reader) members(at *yaml.Node, of string, meant ...string) map[string]*yaml.Node {
	if at.Kind != yaml.MappingNode {
		r.fault(at.Line, of+" must be an object with members, without an anchor")
		return nil
	}
	list := map[string]*yaml.Node{}
	for i := 0; i+1 < len(at.Content); i += 2 {
		name, value := at.Content[i], at.Content[i+1]
		switch {
		case name.Kind != yaml.ScalarNode || value.Kind == yaml.AliasNode || name.Tag == "!!merge":
			r.fault(name.Line, of+" has an anchor, which is not read: write the text in its place")
		case list[name.Value] != nil:
			r.fault(name.Line, of+" has "+name.Value+" twice")
		case slices.Contains(meant, name.Value):
			list[name.Value] = value
		case slices.Contains(known(), name.Value):
			r.leave(name, of+" has the member "+name.Value+", which has no effect there: ratelimit does not read it either")
		default:
			text := of + " has no member " + name.Value
			if other := spelling.Nearest(name.Value, meant); other != "" {
				text += ": did you mean " + other + "?"
			}
			r.fault(name.Line, text)
		}
	}
	return list
}

// text returns a scalar, or "" for a member that is not there.
func (r *reader) text(at *yaml.Node) string {
	switch {
	case at == nil || at.Tag == "!!null":
		return ""
	case at.Kind != yaml.ScalarNode:
		r.fault(at.Line, "this must be one value")
		return ""
	}
	return at.Value
}

// isTrue reads a member that is true or false, or not there.
func (r *reader) isTrue(at *yaml.Node) (value bool) {
	if at != nil && at.Decode(&value) != nil {
		r.fault(at.Line, "this must be true or false")
	}
	return value
}

// list returns the items of a member, which may not be there.
func (r *reader) list(at *yaml.Node) []*yaml.Node {
	switch {
	case at == nil || at.Tag == "!!null":
		return nil
	case at.Kind != yaml.SequenceNode:
		r.fault(at.Line, "this must be a list")
	}
	return at.Content
}

// level reads the descriptors of a list, below a path, besides those that are there already.
func (r *reader) level(nodes []*node, list *yaml.Node, domain string, path []gate.Entry) []*node {
	if len(path) == mostLevels {
		if list != nil {
			r.fault(list.Line, "descriptors are more than "+strconv.Itoa(mostLevels)+" levels deep")
		}
		return nodes
	}
	for _, at := range r.list(list) {
		m := r.members(at, "the descriptor", "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
			"detailed_metric",
			"value_to_metric", "share_threshold")
		n := &node{entry: gate.Entry{Key: r.text(m["key"]), Value: r.text(m["value"])}}
		isThere := slices.ContainsFunc(nodes, func(other *node) bool { return other.entry == n.entry })
		switch {
		case m == nil:
		case n.entry.Key == "":
			r.fault(at.Line, "the descriptor lacks the member key")
		case isThere:
			r.fault(at.Line, "the descriptor "+name(domain, append(path, n.entry))+" is there already")
		case n.entry.Key == gate.AttemptEntry:
			r.leave(at, n.entry.Key+" is the attempt id to velocityd: give the descriptor another key, in Envoy as well. This "+
				"one is left out, with those below it")
		case strings.HasSuffix(n.entry.Key+n.entry.Value, "*"):
			r.leave(at, "* stands for any end of a value, and a rule is for one value or for all: write a descriptor for each "+
				"value. This one is left out, with those below it")
		default:
			path := append(slices.Clone(path), n.entry)
			r.limit(n, m, name(domain, path))
			n.below = r.level(nil, m["descriptors"], domain, path)
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// name describes the descriptors of a path.
func name(domain string, path []gate.Entry) string {
	var entries []string
	for _, e := range path {
		if e.Value != "" {
			e.Key += "=" + e.Value
		}
		entries = append(entries, e.Key)
	}
	return domain + ": " + strings.Join(entries, ", ")
}

// limit reads the limit of a descriptor with members m, and makes its zone.
func (r *reader) limit(n *node, m map[string]*yaml.Node, description string) {
	isShadow, isQuota := r.isTrue(m["shadow_mode"]), r.isTrue(m["quota_mode"])
	at := m["rate_limit"]
	if at == nil || at.Tag == "!!null" {
		return
	}
	limit := r.members(at, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces")
	window, isUnlimited := windowOf(r.text(limit["unit"])), r.isTrue(limit["unlimited"])
	requests, err := strconv.ParseUint("0"+r.text(limit["requests_per_unit"]), 10, 32)
	for _, replaced := range r.list(limit["replaces"]) {
		r.leave(replaced, "replaces has no counterpart: if a request has both descriptors, both limits hold")
	}
	switch {
	case limit == nil:
	case err != nil:
		r.fault(limit["requests_per_unit"].Line, "requests_per_unit must be a whole number, 0 to 4294967295")
	case isUnlimited && window != 0:
		r.fault(limit["unit"].Line, "rate_limit has a unit and is unlimited: leave one of them out")
	case isUnlimited:
	case window == 0:
		r.fault(cmp.Or(limit["unit"], at).Line, "the unit must be second, minute, hour, day, week, month or year")
	case requests > service.MaxRate:
		r.leave(at, "a zone admits at most "+strconv.Itoa(service.MaxRate)+
			" attempts in its window: these descriptors are not limited")
	default:
		zone := service.Zone{
			ID: r.next, Description: service.Shortened(description, service.MaxDescriptionLength),
			Rate: int(requests), Window: window,
		}
		if isShadow || isQuota {
			zone.Mode = service.ModeShadow
		}
		if isQuota {
			r.leave(m["quota_mode"], "quota_mode becomes the mode shadow: answers have no dynamic metadata that tells of it")
		}
		if err := zone.Validate(); err != nil {
			r.fault(at.Line, err.Error())
		}
		r.zones, n.zone, r.next = append(r.zones, zone), r.next, r.next+1
	}
}

// windowOf returns how long a unit is to ratelimit, by src/utils/utilities.go. It is 0 for text that is no unit.
func windowOf(unit string) time.Duration {
	const day = 24 * time.Hour
	return map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "week": 7 * day, "month": 30 * day,
		"year": 365 * day,
	}[strings.ToLower(unit)]
}
