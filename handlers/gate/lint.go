package gate

import (
	"fmt"
	"maps"
	"slices"
)

// Findings returns the parts of a file that are allowed and probably not meant, a sentence each. zones are the ids of
// all zones; nil means that they are not known.
func (f File) Findings(zones []int64) (findings []string) {
	for _, name := range f.Names() {
		for _, finding := range f.Gates[name].findings(zones) {
			findings = append(findings, fmt.Sprintf("gate %s: %s", name, finding))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Domains)) {
		for _, finding := range f.Domains[name].findings(zones) {
			findings = append(findings, fmt.Sprintf("domain %s: %s", name, finding))
		}
	}
	return findings
}

func (g Gate) findings(zones []int64) (findings []string) {
	allOptional := true
	for i, b := range g.Buckets {
		allOptional = allOptional && b.IsOptional
		if zones != nil && !slices.Contains(zones, b.Zone) {
			findings = append(findings, fmt.Sprintf("zone %d does not exist, so every request is refused with 400", b.Zone))
		}
		if b.Key.Kind == Header && slices.Contains([]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"}, b.Key.Name) {
			findings = append(findings,
				fmt.Sprintf("the key of bucket %d is %v, of which end users can write a part: use {client: address}", i+1, b.Key))
		}
		if slices.ContainsFunc(g.Buckets[:i], func(other Bucket) bool { return other.Zone == b.Zone && other.Key == b.Key }) {
			findings = append(findings, fmt.Sprintf("bucket %d is there already", i+1))
		}
	}
	if allOptional {
		findings = append(findings, "all buckets are optional: a request without a key for any of them is refused with 400")
	}
	switch g.Attempt.Kind {
	case Form, JSON, Basic, Client:
		findings = append(findings, fmt.Sprintf("the attempt id is %v, which the end user chooses: guesses with always the "+
			"same id cost nothing; let the gateway make it, in a header that it sets for each request", g.Attempt))
	case Header, Query, "":
	}
	return findings
}
