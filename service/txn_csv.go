package service

import (
	"strconv"
	"strings"
	"unicode"
)

// AppendTxnHeader appends the first line of txns as CSV: the names of the columns, which are those of Txn in JSON.
func AppendTxnHeader(b []byte) []byte {
	return appendCells(b, "id", "zone_id", "bucket_key", "created_at", "blocked", "would_block", "reason", "override_id",
		"counted", "outcome",
		"attempt_id", "attempts", "last_at", "uncounted_at", "country", "asn", "organization", "check_id")
}

// AppendCSV appends the txn as a line of CSV (RFC 4180). Every cell is in quotes, and one that a spreadsheet would
// carry out has an apostrophe before it. The cell of a member that is left out in JSON is empty.
func (t Txn) AppendCSV(b []byte) []byte {
	override, uncounted, asn, check := "", "", "", ""
	if t.CheckID != 0 {
		check = strconv.FormatUint(t.CheckID, 10)
	}
	var origin Origin
	if t.Origin != nil {
		origin = *t.Origin
	}
	if origin.ASN != 0 {
		asn = strconv.FormatUint(uint64(origin.ASN), 10)
	}
	if t.OverrideID != 0 {
		override = strconv.FormatUint(t.OverrideID, 10)
	}
	if !t.UncountedAt.IsZero() {
		uncounted = t.UncountedAt.String()
	}
	return appendCells(b, strconv.FormatUint(t.ID, 10), strconv.FormatInt(t.ZoneID, 10), t.Key, t.CreatedAt.String(),
		strconv.FormatBool(t.Blocked), strconv.FormatBool(t.WouldBlock), string(t.Reason), override,
		strconv.FormatBool(t.Counted), string(t.Outcome), t.AttemptID, strconv.Itoa(t.Attempts), t.LastAt.String(), uncounted,
		origin.Country, asn, origin.Organization, check)
}

// appendCells appends a line of cells. encoding/csv would leave quotes out where a comma separates, and a spreadsheet
// of another language may separate by semicolons.
func appendCells(b []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		if isFormula(cell) {
			b = append(b, '\'')
		}
		b = append(append(b, strings.ReplaceAll(cell, `"`, `""`)...), '"')
	}
	return append(b, "\r\n"...)
}

// isFormula reports whether a spreadsheet would carry a cell out, by the rule of examples/analyst/tocsv.py: behind any
// space there is a sign with which formulas begin, also in its wide form, or the cell begins with a tab or a line end.
// An apostrophe is such a sign, so that the one before a cell can be told from one in it.
func isFormula(cell string) bool {
	if cell != "" && strings.ContainsRune("\t\r\n", rune(cell[0])) {
		return true
	}
	isSpace := func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f } // as Python's \s
	for _, first := range strings.TrimLeftFunc(cell, isSpace) {
		return strings.ContainsRune("'=+-@＇＝＋－＠", first)
	}
	return false
}
