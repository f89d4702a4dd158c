// Package ratelimit reads configurations of envoyproxy/ratelimit as zones, and as the rules by which descriptors are
// asked of them. It must not know how zones are stored, or how descriptors are answered.
package ratelimit

import (
	"errors"
	"fmt"
	"slices"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// Bounds of a configuration.
const (
	mostLevels = 32
	mostRules  = 10_000
)

// Source is the text of a configuration, with the name of its file.
type Source struct {
	Name string
	Text []byte
}

// RemarkError is a sentence about a line of a configuration: a fault, or a part that is left out.
type RemarkError struct {
	File string
	Line int // from 1
	Text string
}

// Error implements error.
func (r RemarkError) Error() string { return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text) }

// Import is a configuration in the terms of velocityd.
type Import struct {
	Zones   []service.Zone // in the order of the configuration
	Domains map[string]gate.Domain
	// Left names the parts that are left out, because they have no counterpart.
	Left []RemarkError
}

// Read reads configurations. Several may have rules of one domain. Zones get their ids from first on, in the order of
// their limits. The error joins a RemarkError for each fault, and then there is no Import.
func Read(sources []Source, first int64) (Import, error) {
	r := &reader{next: first}
	trees := map[string][]*node{}
	for _, s := range sources {
		r.source(s, trees)
	}
	if len(r.faults) > 0 {
		return Import{}, errors.Join(r.faults...)
	}
	all := Import{Zones: r.zones, Domains: map[string]gate.Domain{}, Left: r.left}
	for domain, tree := range trees {
		rules := rulesOf(tree)
		if len(rules) > mostRules {
			return Import{}, fmt.Errorf("domain %s would have %d rules, and at most %d are made", domain, len(rules), mostRules)
		}
		if len(rules) > 0 {
			all.Domains[domain] = rules
		}
	}
	if len(all.Zones) == 0 {
		return Import{}, errors.New("there is no limit to import")
	}
	return all, nil
}

// node is a descriptor of the configuration with those below it.
type node struct {
	entry gate.Entry
	zone  int64 // 0 if it has no limit
	below []*node
}

// rulesOf returns the rules of the descriptors of one level, and of those below them. ratelimit takes a descriptor with
// the value of an entry if there is one, and then looks at no other, also if nothing below it fits: such entries get
// rules with zone 0, in front of the rules for any value.
func rulesOf(level []*node) gate.Domain {
	anyValue := map[string]gate.Domain{}
	for _, n := range level {
		if n.entry.Value == "" {
			anyValue[n.entry.Key] = n.rules()
		}
	}
	var rules, last gate.Domain
	for _, n := range level {
		if n.entry.Value == "" {
			last = append(last, anyValue[n.entry.Key]...)
			continue
		}
		own := n.rules()
		rules = append(rules, own...)
		for _, other := range anyValue[n.entry.Key] {
			free := gate.Rule{Entries: append([]gate.Entry{n.entry}, other.Entries[1:]...)}
			isCovered := slices.ContainsFunc(own, func(r gate.Rule) bool { return r.Fits(free.Entries) })
			if other.Zone != 0 && !isCovered {
				rules = append(rules, free)
			}
			if len(rules) > mostRules {
				return rules
			}
		}
	}
	return append(rules, last...)
}

// rules returns the rules of a descriptor and of those below it.
func (n *node) rules() gate.Domain {
	var rules gate.Domain
	if n.zone != 0 {
		rules = append(rules, gate.Rule{Zone: n.zone, Entries: []gate.Entry{n.entry}})
	}
	for _, r := range rulesOf(n.below) {
		rules = append(rules, gate.Rule{Zone: r.Zone, Entries: append([]gate.Entry{n.entry}, r.Entries...)})
	}
	return rules
}
