package gate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"velocityd/service"
)

// Domain is the rules of one domain of Envoy's Rate Limit Service, in the order of the file. The first rule that a
// descriptor fits says which bucket it names. The tags of Domain, Rule and Entry are those of the file, for programs
// that write one.
type Domain []Rule

// Rule is the zone of the descriptors that have exactly these entries in this order. Zone 0 means that they are not
// limited.
type Rule struct {
	Zone    int64   `yaml:"zone"`
	Entries []Entry `yaml:"entries,flow"`
}

// Entry is an entry of a descriptor. In a rule, an empty Value stands for any value, which is then a part of the
// bucket's key.
type Entry struct {
	Key   string `yaml:"key"`
	Value string `yaml:"value,omitempty"`
}

// WholeKey is the bucket's key of a descriptor whose rule fixes all values.
const WholeKey = "all"

// AttemptEntry is the key of the entry of a descriptor that has the attempt id. No rule names it.
const AttemptEntry = "attempt_id"

// Bucket returns the bucket that a descriptor names. ok is false if it fits no rule: it is not limited. The error wraps
// service.ErrInvalid and repeats no value.
func (d Domain) Bucket(entries []Entry) (bucket service.Bucket, ok bool, err error) {
	i := slices.IndexFunc(d, func(r Rule) bool { return r.Fits(entries) })
	if i < 0 || d[i].Zone == 0 {
		return bucket, false, nil
	}
	key, err := d[i].key(entries)
	return service.Bucket{ZoneID: d[i].Zone, Key: key}, true, err
}

// Fits reports whether the rule is one for these entries, of a descriptor or of another rule.
func (r Rule) Fits(entries []Entry) bool {
	return slices.EqualFunc(r.Entries, entries, func(of, given Entry) bool {
		return of.Key == given.Key && (of.Value == "" || of.Value == given.Value)
	})
}

// key returns the key of a descriptor that fits: the values that the rule leaves free. Several are joined by commas,
// after those inside of them are escaped, so that other values make another key.
func (r Rule) key(entries []Entry) (string, error) {
	var free []string
	for i, entry := range entries {
		switch {
		case r.Entries[i].Value != "":
		case entry.Value == "":
			return "", wrong("the value of the entry %s is empty", entry.Key)
		default:
			free = append(free, entry.Value)
		}
	}
	switch len(free) {
	case 0:
		return WholeKey, nil
	case 1:
		return free[0], nil
	}
	escape := strings.NewReplacer("%", "%25", ",", "%2C")
	for i := range free {
		free[i] = escape.Replace(free[i])
	}
	return strings.Join(free, ","), nil
}

// findings returns the rules that are allowed and probably not meant, a sentence each.
func (d Domain) findings(zones []int64) (findings []string) {
	for i, rule := range d {
		if zones != nil && rule.Zone != 0 && !slices.Contains(zones, rule.Zone) {
			findings = append(findings,
				fmt.Sprintf("zone %d does not exist, so a request with a descriptor of rule %d is refused", rule.Zone, i+1))
		}
		if first := slices.IndexFunc(d[:i], func(other Rule) bool { return other.Fits(rule.Entries) }); first >= 0 {
			findings = append(
				findings, fmt.Sprintf("rule %d never applies, because rule %d fits the same descriptors", i+1, first+1))
		}
	}
	return findings
}

// maxDomainName bounds the name of a domain, in bytes.
const maxDomainName = 255

func (p *parser) domains(node *yaml.Node) map[string]Domain {
	domains := map[string]Domain{}
	for name, m := range p.members(node, "domains", nil) {
		if name == "" || len(name) > maxDomainName {
			p.fault(m.at, "the name of a domain must be 1 to %d bytes", maxDomainName)
			continue
		}
		domains[name] = p.domain("domain "+name, m.value)
	}
	return domains
}

func (p *parser) domain(of string, node *yaml.Node) (d Domain) {
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		p.fault(node, "%s must be a list of rules", of)
		return nil
	}
	for i, rule := range node.Content {
		of := fmt.Sprintf("%s, rule %d", of, i+1)
		members := p.members(rule, of, []string{"zone", "entries"})
		if members == nil {
			continue
		}
		r := Rule{Entries: p.entries(rule, members, of)}
		if m, ok := members["zone"]; !ok || m.value.Value != "0" {
			r.Zone = p.zone(rule, members, of)
		}
		d = append(d, r)
	}
	return d
}

// entries reads the member entries of a rule.
func (p *parser) entries(rule *yaml.Node, members map[string]member, of string) (entries []Entry) {
	list, ok := members["entries"]
	if !ok || list.value.Kind != yaml.SequenceNode || len(list.value.Content) == 0 {
		p.fault(rule, "%s must have entries, which is a list", of)
		return nil
	}
	for i, node := range list.value.Content {
		of := fmt.Sprintf("%s, entry %d", of, i+1)
		members, entry := p.members(node, of, []string{"key", "value"}), Entry{}
		if m, ok := members["key"]; ok {
			entry.Key = p.text(m, of)
		} else if members != nil {
			p.fault(node, "%s lacks the member key", of)
		}
		if m, ok := members["value"]; ok {
			entry.Value = p.text(m, of)
		}
		if entry.Key == AttemptEntry {
			p.fault(node, "%s: %s is the attempt id, which no rule names", of, AttemptEntry)
		}
		entries = append(entries, entry)
	}
	return entries
}
