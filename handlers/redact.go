package handlers

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"velocityd/service"
)

const withheldText = "text not logged, because it contains a bucket key"

// loggable returns an error's text, or its kind alone if the text contains a bucket
// key of the request, as it was given or as its zone may write it. An engine's
// message may quote the key. Cutting only the key out would not do: if it is a common
// word, the gaps in the text would give it away.
func (x *exchange) loggable(err error) string {
	text, keys := err.Error(), x.namedKeys()
	for _, key := range keys {
		folded, fault := service.KeyRule{Kind: service.KeyUsername}.Normalize(key)
		if mentions(text, key) || fault == nil && mentions(text, folded) {
			return fmt.Sprintf("%v: %s", kindOf(err).Err, withheldText)
		}
	}
	if mentionsNetwork(text, keys) {
		return fmt.Sprintf("%v: %s", kindOf(err).Err, withheldText)
	}
	return text
}

// namedKeys returns the keys of the request as they were given.
func (x *exchange) namedKeys() []string {
	keys := slices.Clone(x.keys)
	for _, check := range x.checks {
		for _, b := range check.Buckets {
			keys = append(keys, b.Key)
		}
	}
	return keys
}

// mentions reports whether text contains key, other than as a part of a longer word
// or number. Engines quote keys as 'alice' or '1-alice'.
func mentions(text, key string) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; key != ""; {
		at := strings.Index(text[from:], key)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(key):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from = at + 1
	}
	return false
}

// mentionsNetwork reports whether text contains an address or network in which one of
// the keys lies: a zone may write addresses as networks of any length.
func mentionsNetwork(text string, keys []string) bool {
	var addresses []netip.Addr
	for _, key := range keys {
		key, _, _ = strings.Cut(key, "/")
		if address, err := netip.ParseAddr(key); err == nil {
			addresses = append(addresses, address.Unmap().WithZone(""))
		}
	}
	if len(addresses) == 0 {
		return false
	}
	holdsOne := func(found string) bool {
		network, err := netip.ParsePrefix(found)
		if address, fault := netip.ParseAddr(found); fault == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		return err == nil && slices.ContainsFunc(addresses, network.Contains)
	}
	shape := regexp.MustCompile(`[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]+(/[0-9]+)?`)
	return slices.ContainsFunc(shape.FindAllString(text, -1), holdsOne)
}
