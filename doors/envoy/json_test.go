package envoy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"velocityd/doors/envoy"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/memory"
)

// FuzzJSON holds that every text is answered in JSON or refused, and that no error repeats it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"login","descriptors":[{"entries":[{"key":"zone_1","value":"alice"}]}]}`, "", "[]", `{"domain":1}`,
		`{"domain":"x","descriptors":[{"entries":[{"key":"attempt_id","value":"a"}],"hitsAddend":"0"}],"hitsAddend":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		noted, logged := make(noting, 1), admission.Request{}
		answers := envoy.NewJSON(envoy.Options{Limiter: noted, Buckets: memory.New()})
		answer, _, err := answers.AnswerJSON(t.Context(), text, admission.Caller{}, &logged)
		if (err == nil) != json.Valid(answer) || err != nil && !errors.Is(err, service.ErrInvalid) &&
			!errors.Is(err, service.ErrNotFound) {
			t.Fatalf("%q: %q %v", text, answer, err)
		}
		if err != nil && len(text) > 50 && strings.Contains(err.Error(), string(text)) {
			t.Fatalf("the error repeats the text: %v", err)
		}
	})
}
