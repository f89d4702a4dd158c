package proof_test

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/proof"
)

func TestAnAnswerNeedsItsTxns(t *testing.T) {
	t.Parallel()
	const text = `[[1,"a",0,0,1,5,60,1,4,0,"elsewhere",0,0],[2,"b",1,1,2,5,60,5,0,9,"full",0,0]]`
	answer := proof.Answer{AttemptID: "x", At: start()}
	if err := answer.Read([]byte(text)); err != nil {
		t.Fatal(err)
	}
	named := func(r *proof.Row) { r.AttemptID = "x" }
	a := txn(1, 0, elsewhere, named)
	b := txn(2, 0, blocked, named, func(r *proof.Row) { r.Bucket = service.Bucket{ZoneID: 2, Key: "b"} })
	earlier := b
	earlier.CreatedAt.Time, earlier.AttemptID, earlier.Attempts = b.CreatedAt.Add(-time.Minute), "", 3
	other := b
	other.Bucket.Key = "c"
	for _, c := range []struct {
		name string
		txns []proof.Row
		want int
	}{
		{"both", []proof.Row{a, b}, 0},
		{"one counts it in an earlier txn", []proof.Row{a, earlier}, 0},
		{"one is missing", []proof.Row{a}, 1},
		{"one is of another bucket", []proof.Row{a, other}, 1},
		{"one passed", []proof.Row{txn(1, 0, named), b}, 1},
		{"none", nil, 2},
	} {
		if found := answer.Judge(c.txns); len(found) != c.want {
			t.Errorf("%s: found %v, want %d", c.name, found, c.want)
		}
	}
}

func FuzzAnAnswerIsReadOrRefused(f *testing.F) {
	for _, seed := range []string{
		`[[1,"a",0,1,7,5,60,1,4,0,"",0,0]]`, `[]`, `null`, `[[]]`, `[[1,"x"]]`, `[[1,2,0,0,1]]`, `[[1,"x",0,0,-1]]`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var answer proof.Answer
		if err := answer.Read(text); err == nil && len(answer.Verdicts) == 0 {
			t.Errorf("%q names no bucket, and is no error", text)
		} else if err != nil && len(text) > 20 && strings.Contains(err.Error(), string(text)) {
			t.Errorf("the error quotes %q", text)
		}
	})
}
