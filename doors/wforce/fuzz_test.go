package wforce

import (
	"encoding/json"
	"errors"
	"testing"

	"velocityd/service"
)

// FuzzTupleIsReadAsItIsWritten holds that no body breaks the decoder, and that a tuple that was read comes back from
// its JSON.
func FuzzTupleIsReadAsItIsWritten(f *testing.F) {
	for _, seed := range []string{
		`{"login":"alice","protocol":"imap","pwhash":"0f24","remote":"127.0.0.1","session_id":"bm"}`,
		`{"success":true,"policy_reject":"true","expire_secs":1e2,"login":7,"attrs":{"login":"x"}}`, `{"expire_secs":60}`,
		`null`, `[]`, `{"login":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		read, err := parseTuple(body)
		if err != nil {
			if !errors.Is(err, service.ErrInvalid) || read != (tuple{}) {
				t.Fatalf("%+v, %v", read, err)
			}
			return
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseTuple(written); err != nil || again != read {
			t.Fatalf("%q is read as %+v, and from its JSON as %+v (%v)", body, read, again, err)
		}
	})
}
