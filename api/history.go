package api

import (
	"strconv"
	"strings"
	"unicode"

	"velocityd/service"
)

// Media types of streams of txns.
const (
	MediaNDJSON = "application/x-ndjson"
	MediaCSV    = "text/csv"
	MediaEvents = "text/event-stream"
)

// EventProblem is the name of the event with which GET /v1/txns/follow ends. Its data is a Problem.
const EventProblem = "problem"

// Txns is the answer of GET /v1/txns: one page.
type Txns struct {
	Txns []Txn `json:"txns"`
	// Others are there only if they were asked for.
	Others []Txn `json:"others,omitzero"`
	// Next is the id behind which the following page begins, and 0 if there is none.
	Next ID `json:"next,omitzero"`
	// Last is the id of the last txn that was looked at, from which a reader in ascending order goes on later. It is left
	// out if there never was one.
	Last ID `json:"last,omitzero"`
	// ScannedUntil is the instant of the last txn that was looked at.
	ScannedUntil Instant `json:"scanned_until,omitzero"`
}

// NewTxns returns the answer for a page.
func NewTxns(page service.HistoryPage) Txns {
	answer := Txns{Txns: newTxns(page.Txns), Next: ID(page.Next), Last: ID(page.Last), ScannedUntil: Instant(page.ScannedUntil.Time)}
	if len(page.Others) > 0 {
		answer.Others = newTxns(page.Others)
	}
	return answer
}

// Page converts the answer to the type of package service.
func (t Txns) Page() service.HistoryPage {
	page := service.HistoryPage{Next: uint64(t.Next), Last: uint64(t.Last), ScannedUntil: service.At(t.ScannedUntil.Time())}
	for _, txn := range t.Txns {
		page.Txns = append(page.Txns, txn.Txn())
	}
	for _, txn := range t.Others {
		page.Others = append(page.Others, txn.Txn())
	}
	return page
}

// TxnLine is one line of a stream: a txn, or the problem by which the stream broke off. A line with a problem is the
// last one, and holds nothing else.
type TxnLine struct {
	*Txn
	Problem *Problem `json:"problem,omitzero"`
}

// OutcomeNone stands in a query for txns that nobody has reported on.
const OutcomeNone = "none"

// AppendTxnHeader appends the first line of txns as CSV: the names of the columns, which are those of Txn in JSON.
func AppendTxnHeader(b []byte) []byte {
	return appendCells(b, "id", "zone_id", "bucket_key", "created_at", "blocked", "would_block", "reason", "override_id", "counted", "outcome",
		"attempt_id", "attempts", "last_at", "uncounted_at", "country", "asn", "organization", "check_id")
}

// AppendCSV appends the txn as a line of CSV (RFC 4180). Every cell is in quotes, and one that a spreadsheet would carry
// out has an apostrophe before it. The cell of a member that is left out in JSON is empty.
func (t Txn) AppendCSV(b []byte) []byte {
	override, uncounted, asn, check := "", "", "", ""
	if t.CheckID != 0 {
		check = strconv.FormatUint(uint64(t.CheckID), 10)
	}
	if t.ASN != 0 {
		asn = strconv.FormatUint(uint64(t.ASN), 10)
	}
	if t.OverrideID != 0 {
		override = strconv.FormatUint(uint64(t.OverrideID), 10)
	}
	if !t.UncountedAt.IsZero() {
		uncounted = t.UncountedAt.String()
	}
	return appendCells(b, strconv.FormatUint(uint64(t.ID), 10), strconv.FormatInt(t.ZoneID, 10), t.BucketKey, t.CreatedAt.String(),
		strconv.FormatBool(t.Blocked), strconv.FormatBool(t.WouldBlock), string(t.Reason), override, strconv.FormatBool(t.Counted),
		string(t.Outcome), t.AttemptID, strconv.Itoa(t.Attempts), t.LastAt.String(), uncounted,
		t.Country, asn, t.Organization, check)
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
