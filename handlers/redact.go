package handlers

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"velocityd/service"
)

const redacted = "[key]"

// withoutKeys returns an error's text with every bucket key of the request
// blotted out, as it was given and as its zone may write it: an engine's message
// may quote what it was asked.
func (x *exchange) withoutKeys(text string) string {
	given := slices.Clone(x.keys)
	for _, check := range x.checks {
		for _, b := range check.Buckets {
			given = append(given, b.Key)
		}
	}
	keys := slices.Clone(given)
	for _, key := range given {
		if folded, err := (service.KeyRule{Kind: service.KeyUsername}).Normalize(key); err == nil {
			keys = append(keys, folded)
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	// The longest first: of two keys that fit, the earlier one is replaced.
	slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, key := range keys {
		pairs = append(pairs, key, redacted)
	}
	return withoutNetworks(strings.NewReplacer(pairs...).Replace(text), given)
}

// withoutNetworks blots out the addresses and networks that hold one of the keys
// that are addresses: a zone may write those in any prefix length.
func withoutNetworks(text string, keys []string) string {
	var addresses []netip.Addr
	for _, key := range keys {
		key, _, _ = strings.Cut(key, "/")
		if address, err := netip.ParseAddr(key); err == nil {
			addresses = append(addresses, address.Unmap().WithZone(""))
		}
	}
	if len(addresses) == 0 {
		return text
	}
	holdsOne := func(found string) string {
		network, err := netip.ParsePrefix(found)
		if address, fault := netip.ParseAddr(found); fault == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err == nil && slices.ContainsFunc(addresses, network.Contains) {
			return redacted
		}
		return found
	}
	return regexp.MustCompile(`[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]+(/[0-9]+)?`).ReplaceAllStringFunc(text, holdsOne)
}
