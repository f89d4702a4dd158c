package shell

import (
	"math"
	"strings"
	"testing"
)

type answer struct {
	ZoneID  int64            `json:"zone_id"`
	Until   *string          `json:"until"`
	Total   numbers          `json:"total"`
	Sprays  []any            `json:"sprays"`
	Rows    []row            `json:"rows"`
	Notes   []string         `json:"notes"`
	Origins map[string]place `json:"origins,omitzero"`
	Cut     bool             `json:"cut"`
}

type numbers struct {
	Attempts int64   `json:"attempts"`
	Share    float64 `json:"share"`
}

type row struct {
	Key     string   `json:"bucket_key"`
	Numbers numbers  `json:"numbers"`
	Users   []string `json:"users"`
	Bins    []place  `json:"bins"`
	Reason  string   `json:"reason,omitzero"`
}

type place struct {
	Country string `json:"country"`
}

func TestPrintShowsWholeAnswerUnderItsNames(t *testing.T) {
	t.Parallel()
	a := answer{
		ZoneID: 7, Total: numbers{1 << 62, 0.5},
		Sprays: []any{}, Notes: []string{"A sentence.", "Another one."},
		Origins: map[string]place{"192.0.2.1": {"NL"}, "a\x1b": {"\u202e"}},
		Rows: []row{
			{Key: "ann", Numbers: numbers{Attempts: 3}, Users: []string{"bob", "e\u202eve"}, Bins: []place{{"DE"}, {""}}},
			{Key: " eve", Bins: []place{}, Reason: "full"},
		},
	}
	var out strings.Builder
	if err := Print(&out, false, a); err != nil {
		t.Fatal(err)
	}
	const want = `zone id  7
until    -
cut      false

total
  attempts             share
  4611686018427387904  0.5

sprays
  none

rows
  bucket key  attempts  share  users             reason
  ann         3         0      bob, "e\u202eve"  -
  " eve"      0         0      -                 full

rows 1: bins
  DE
  -

notes
  A sentence.
  Another one.

origins
             country
  192.0.2.1  NL
  "a\x1b"    "\u202e"
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	if err := Print(&out, true, a); err != nil || !strings.HasPrefix(out.String(), `{"zone_id":7,`) ||
		strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, &out)
	}
	if err := Print(&out, false, math.Inf(1)); err == nil {
		t.Error("a value without a JSON form is printed")
	}
}
