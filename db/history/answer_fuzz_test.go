package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// FuzzParseAnswer reads answers as zone_attempt may hold them. The answer must be the one that was
// written, in every member.
func FuzzParseAnswer(f *testing.F) {
	for _, seed := range []string{
		`[[1,"alice",0,1,7,5,60,1,4,0,"",0,0]]`,
		`[[1, "a\"b\\é\ud83d\udd11", 1, 1, 18446744073709551615, 5, 60, 5, 0, 58, "denied", 18446744073709551615, 0], [2, "x", 0, 0, 8, 1, 1, 1, 0, 0, "elsewhere", 0, 2678400]]`,
		`[[1,"x",1,1,7,5,60,null,null,9,"denied",3,0]]`, `[[1,"x",0,0,7,5,60,null,4,9,"",0,0]]`, `[]`, `null`, `{}`, `[[]]`,
		`[[1,"x"]]`, `[null]`,
		`[[1,"x",0,0,-1,1,1,1,0,0,"",0,0]]`, `[[1,"x",0,0,1.5,1,1,1,0,0,"",0,0]]`,
		`[[null,null,null,null,null,null,null,null,null,null,null,null,null]]`,
		`[[1,"x",0,0,1,1,1,1,0,99999999999999999,"",0,0]]`, `[[1,2,0,0,1,1,1,1,0,0,"",0,0]]`,
		`[[18446744073709551615,"x",0,0,1,1,1,1,0,0,"",0,0]]`, `[[1,"x",2,0,1,1,1,1,0,0,"",0,0]]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var d service.Decision
		if err := ParseAnswer(answer, &d); err != nil {
			return
		}
		var want [][]any
		decoder := json.NewDecoder(bytes.NewReader(answer))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil || len(want) != len(d.Verdicts) || len(want) == 0 {
			t.Fatalf("%q was read as %+v; it is %v, %v", answer, d, want, err)
		}
		for i, v := range d.Verdicts {
			flag := func(is bool) json.Number {
				if is {
					return "1"
				}
				return "0"
			}
			number := func(n any) json.Number { return json.Number(fmt.Sprint(n)) }
			var velocity any // null where no limit decided, as is the number that remains
			if velocity = number(v.Velocity); v.Unmetered {
				velocity = nil
			}
			if v.Unmetered != (want[i][8] == nil) {
				t.Errorf("%q: unmetered %v, and %v remain", answer, v.Unmetered, want[i][8])
			}
			got := []any{
				number(v.Bucket.ZoneID), v.Bucket.Key, flag(v.Blocked), flag(v.WouldBlock), number(v.TxnID), number(v.Rate),
				number(int64(v.Window.Duration / time.Second)), velocity, want[i][8],
				number(int64(v.RetryAfter.Duration / time.Second)),
				string(v.Reason), number(v.OverrideID), number(int64(v.ResetAfter.Duration / time.Second)),
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("%q: bucket %d was read as %v, want %v", answer, i, got, want[i])
			}
		}
	})
}
