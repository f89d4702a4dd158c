package console

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"velocityd/service"
)

// spelling is the rule of texts that people paste in place of an id.
type spelling struct{ txn, uuid *regexp.Regexp }

// newSpelling returns the rule. A txn id may have a mark before it, and a comma, a blank or an apostrophe between its
// thousands; a point there would make an IPv4 address an id. A UUID may lack its dashes.
func newSpelling() spelling {
	return spelling{
		txn: regexp.MustCompile(`^(?i:txn)?[ :]*#? ?(\d+|\d{1,3}(?:[ ,'’_]\d{3})+)$`),
		uuid: regexp.MustCompile(
			`^(?i:urn:uuid:)?\{?([[:xdigit:]]{8})-?` +
				`([[:xdigit:]]{4})-?([[:xdigit:]]{4})-?([[:xdigit:]]{4})-?([[:xdigit:]]{12})\}?$`),
	}
}

// narrow returns text in the characters that ids are written in: full-width ones and thin spaces become those of ASCII.
func narrow(text string) string { return strings.TrimSpace(norm.NFKC.String(text)) }

// txnID returns the txn id that text spells. No txn has the id 0.
func (s spelling) txnID(text string) (id uint64, ok bool) {
	found := s.txn.FindStringSubmatch(narrow(text))
	if found == nil {
		return 0, false
	}
	digits := strings.NewReplacer(" ", "", ",", "", "'", "", "’", "", "_", "").Replace(found[1])
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil && id != 0
}

// attemptIDs returns the attempt ids that text may spell, the likeliest first. Each is one that an attempt can have.
func (s spelling) attemptIDs(text string) (ids []string) {
	text = narrow(text)
	var spelt []string
	if parts := s.uuid.FindStringSubmatch(text); parts != nil {
		dashed, bare := strings.Join(parts[1:], "-"), strings.Join(parts[1:], "")
		for _, form := range []string{dashed, bare} {
			spelt = append(spelt, strings.ToLower(form), strings.ToUpper(form))
		}
	}
	spelt = append(spelt, text, strings.ToLower(text), strings.ToUpper(text))
	for _, id := range spelt {
		if service.ValidateAttemptID(id) == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
