package admission

import (
	"mime"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of trusted proxies. They may say from which address a call comes, and for which user. Other
// addresses cannot.
type Proxies []netip.Prefix

// ThisMachine returns the addresses that only programs on this machine have.
func ThisMachine() Proxies {
	return Proxies{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Trust reports whether an address is that of a proxy. The zone of an address does not count.
func (p Proxies) Trust(address netip.Addr) bool {
	address = plain(address)
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Client returns the address that a call comes from, without a zone, and an IPv4 address as such. peer is the
// other end of the connection. forwardedFor are the lines of the header X-Forwarded-For, and forwarded those of
// Forwarded (RFC 7239), in the order in which they came.
//
// A peer that is no proxy is the client: the headers do not count. Otherwise each header is read from the right,
// because every proxy appends to it: the client is the first address that is no proxy, or the leftmost one. The walk
// ends at an element that names no address, because it is malformed, "unknown" or hidden. The client is then the proxy
// that has written it. The text to the left of where a walk ends has no effect.
//
// ok is false if both headers are there and lead to different addresses: a proxy that writes one of them may pass on
// the other as its caller wrote it. It is false for a peer without an address, too.
func (p Proxies) Client(peer netip.Addr, forwardedFor, forwarded []string) (client netip.Addr, ok bool) {
	peer = plain(peer)
	if !peer.IsValid() || !p.Trust(peer) {
		return peer, peer.IsValid()
	}
	client = p.walk(peer, forwardedFor, addressOf)
	second := p.walk(peer, forwarded, addressFor)
	switch {
	case len(forwarded) == 0:
		return client, true
	case len(forwardedFor) == 0:
		return second, true
	}
	return client, client == second
}

// walk returns the address to which a header leads from peer, which is a proxy. read returns the address that an
// element of the header names.
func (p Proxies) walk(peer netip.Addr, lines []string, read func(element string) (netip.Addr, bool)) netip.Addr {
	for _, line := range slices.Backward(lines) {
		for rest := line; rest != ""; {
			before, element, ok := cutLast(rest)
			if !ok {
				return peer
			}
			rest = before
			if element == "" {
				continue // RFC 9110, section 5.6.1.2: empty elements of a list are ignored
			}
			address, ok := read(element)
			if !ok {
				return peer
			}
			if peer = address; !p.Trust(address) {
				return peer
			}
		}
	}
	return peer
}

// cutLast cuts the last element off a list, without the space around it. Commas in quotes do not count. ok is false
// if the element holds the end of a quoted text that has no beginning.
func cutLast(list string) (rest, element string, ok bool) {
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i] {
		case ',':
			return list[:i], strings.TrimSpace(list[i+1:]), true
		case '"':
			if i = openingQuote(list[:i]); i < 0 {
				return "", "", false
			}
		}
	}
	return "", strings.TrimSpace(list), true
}

// openingQuote returns the place of the last quote that no backslash escapes, or -1.
func openingQuote(text string) int {
	for {
		i := strings.LastIndexByte(text, '"')
		if i < 0 {
			return -1
		}
		before := strings.TrimRight(text[:i], `\`)
		if (i-len(before))%2 == 0 {
			return i
		}
		text = text[:i]
	}
}

// addressFor returns the address that an element of Forwarded names by its parameter "for".
func addressFor(element string) (netip.Addr, bool) {
	_, parameters, err := mime.ParseMediaType("for/warded;" + element)
	if err != nil {
		return netip.Addr{}, false
	}
	return addressOf(parameters["for"])
}

// addressOf returns the address of a node (RFC 7239, section 6), which may have a port. IPv6 may do without brackets
// if there is no port, as X-Forwarded-For has it.
func addressOf(node string) (netip.Addr, bool) {
	host, port, hasPort := node, "", false
	if inner, isBracketed := strings.CutPrefix(node, "["); isBracketed {
		var isClosed bool
		if host, port, isClosed = strings.Cut(inner, "]"); !isClosed {
			return netip.Addr{}, false
		}
		if port != "" {
			if port, hasPort = strings.CutPrefix(port, ":"); !hasPort {
				return netip.Addr{}, false
			}
		}
	} else if strings.Count(node, ":") == 1 {
		host, port, hasPort = strings.Cut(node, ":")
	}
	address, err := netip.ParseAddr(host)
	return plain(address), err == nil && (!hasPort || isPort(port))
}

// isPort reports whether a text is a port of a node: a number, or a name that hides one.
func isPort(text string) bool {
	notNumber := func(r rune) bool { return r < '0' || r > '9' }
	notName := func(r rune) bool {
		return notNumber(r) && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("._-", r)
	}
	if name, isHidden := strings.CutPrefix(text, "_"); isHidden {
		return name != "" && !strings.ContainsFunc(name, notName)
	}
	return text != "" && len(text) <= 5 && !strings.ContainsFunc(text, notNumber)
}

// plain returns an address without a zone, and an IPv4 address as such.
func plain(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
