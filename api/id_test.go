package api_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"testing"

	"velocityd/api"
)

func FuzzIDsAreReadAsTheyAreWritten(f *testing.F) {
	for _, seed := range []string{
		`1`, `"981"`, `9007199254740993`, `"18446744073709551615"`, `18446744073709551616`, `"0"`, `0`, `"01"`, `-1`, `"-1"`,
		`"+1"`, `1.0`, `1e3`,
		`"1e3"`, `""`, `"`, ``, `null`, `true`, `{}`, `[1]`, `" 1"`, `"\u0031"`, `"1_000"`, `"0x1"`, `"١"`,
	} {
		f.Add([]byte(seed))
	}
	digits := regexp.MustCompile(`\A(?:"(0|[1-9][0-9]*)"|(0|[1-9][0-9]*))\z`)
	f.Fuzz(func(t *testing.T, text []byte) {
		var id api.ID
		err := id.UnmarshalJSON(text)
		found := digits.FindSubmatch(text)
		isID := found != nil
		var want uint64
		if isID {
			var wrong error
			want, wrong = strconv.ParseUint(string(found[1])+string(found[2]), 10, 64)
			isID = wrong == nil
		}
		if (err == nil) != isID || err != nil && !errors.Is(err, api.ErrNoID) || err == nil && uint64(id) != want {
			t.Fatalf("%q is read as %d, %v; want %d, %v", text, id, err, want, isID)
		}
		if err != nil {
			return
		}
		written, err := json.Marshal(id)
		var again api.ID
		if err != nil || json.Unmarshal(written, &again) != nil || again != id || written[0] != '"' {
			t.Fatalf("%d is written as %s, %v, and read as %d", id, written, err, again)
		}
	})
}
