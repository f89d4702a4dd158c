package service

import "fmt"

// Origin is the network and the country of an address, as a file of the operator tells them. It is for readers of
// the history: no decision depends on it. Members that the file does not know are zero.
type Origin struct {
	Country      string `json:"country,omitzero"`      // by ISO 3166-1: two letters
	ASN          uint32 `json:"asn,omitzero"`          // the number of the autonomous system
	Organization string `json:"organization,omitzero"` // of the autonomous system
}

// Text says the origin in a few words, such as "DE, AS3320 Deutsche Telekom AG".
func (o Origin) Text() string {
	switch {
	case o.ASN == 0:
		return o.Country
	case o.Country == "":
		return fmt.Sprintf("AS%d %s", o.ASN, o.Organization)
	}
	return fmt.Sprintf("%s, AS%d %s", o.Country, o.ASN, o.Organization)
}
