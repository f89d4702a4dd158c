// Package txn has the commands about recorded attempts: which are wanted, and in which form. It must not know HTTP or
// SQL.
package txn

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// Output is a form of txns for people or programs.
type Output string

// The forms.
const (
	Table Output = "table"
	JSON  Output = "json" // a line for each txn, as the HTTP interface gives it
	CSV   Output = "csv"
)

// Writer writes txns one by one, and holds none.
type Writer struct {
	to       io.Writer
	output   Output
	origin   func(key string) *service.Origin
	hasBegun bool
	line     []byte
}

// NewWriter returns a writer. origin returns where a key comes from; nil if no origins are known.
func NewWriter(to io.Writer, output Output, origin func(key string) *service.Origin) *Writer {
	return &Writer{to: to, output: output, origin: origin}
}

// Write writes a txn.
func (w *Writer) Write(t service.Txn) (err error) {
	if err := w.Begin(); err != nil {
		return err
	}
	if w.origin != nil {
		t.Origin = w.origin(t.Bucket.Key)
	}
	switch w.line = w.line[:0]; w.output {
	case CSV:
		w.line = t.AppendCSV(w.line)
	case JSON:
		if w.line, err = json.Marshal(t); err != nil {
			return fmt.Errorf("encode txn %d: %w", t.ID, err)
		}
		w.line = append(w.line, '\n')
	default:
		w.line = fmt.Appendf(w.line, row, fmt.Sprint(t.ID), t.CreatedAt, fmt.Sprint(t.Bucket.ZoneID),
			shell.Printable(t.Bucket.Key), Describe(t)+shell.Printable(originOf(t)))
	}
	_, err = w.to.Write(w.line)
	return err
}

// row has columns of a fixed width, so that no row waits for another one.
const row = "%-9s  %-27s  %-4s  %-24s  %s\n"

// Begin writes the names of the columns, unless it has done so.
func (w *Writer) Begin() (err error) {
	if w.hasBegun {
		return nil
	}
	w.hasBegun = true
	switch w.output {
	case CSV:
		_, err = w.to.Write(service.AppendTxnHeader(nil))
	case Table:
		_, err = fmt.Fprintf(w.to, row, "id", "time (UTC)", "zone", "key", "")
	case JSON:
	}
	return err
}

// Describe returns the fate of an attempt, such as "allowed, counted".
func Describe(t service.Txn) string {
	words := []string{"allowed"}
	if t.Blocked {
		words[0] = "blocked"
	}
	for _, word := range []struct {
		text string
		told bool
	}{
		{"would block", t.WouldBlock && !t.Blocked},
		{string(t.Reason), t.Reason != ""},
		{"counted", t.Counted},
		{"its place was given back", !t.UncountedAt.IsZero()},
		{string(t.Outcome), t.Outcome != ""},
		{fmt.Sprintf("%d attempts, the last at %s", t.Attempts, t.LastAt.UTC().Format(time.RFC3339)), t.Attempts > 1},
	} {
		if word.told {
			words = append(words, word.text)
		}
	}
	return strings.Join(words, ", ")
}

// originOf returns the end of a line on an attempt: the network and the country of its address, if they are known.
func originOf(t service.Txn) string {
	if t.Origin == nil {
		return ""
	}
	return ", from " + t.Origin.Text()
}
