package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
)

func FuzzInstantIsWrittenWithSixDigitsInUTC(f *testing.F) {
	for _, at := range []int64{0, 1, 999_999, 1_756_034_102_120_000, -1, 253_402_300_799_999_999} {
		f.Add(at, int64(0), 0)
	}
	f.Add(int64(1), int64(999), 7200)
	f.Fuzz(func(t *testing.T, micro, nano int64, offset int) {
		at := time.UnixMicro(micro).Add(time.Duration(nano % 1000)).In(time.FixedZone("", offset%86400))
		if year := at.UTC().Year(); year < 0 || year > 9999 {
			return // RFC 3339 has no such years
		}
		want := at.UTC().Format("2006-01-02T15:04:05.000000Z")
		text, err := api.Instant(at).MarshalText()
		if err != nil || string(text) != want {
			t.Fatalf("wrote %s, %v, want %s", text, err, want)
		}
		var read api.Instant
		if err := read.UnmarshalText(text); err != nil || read.Time() != at.UTC().Truncate(time.Microsecond) {
			t.Fatalf("%s came back as %s, %v", text, read, err)
		}
	})
}

// through encodes value as JSON and decodes it again.
func through[T any](t *testing.T, value T) (T, string) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var again T
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return again, string(text)
}

func at(second int) time.Time { return time.Date(2026, 8, 24, 9, 15, second, 120_000, time.UTC) }

func TestWhatIsNotThereIsLeftOut(t *testing.T) {
	t.Parallel()
	_, override := through(t, api.NewOverride(service.Override{ID: 1, ZoneID: 2, Key: "k", Action: service.OverrideDeny}))
	if want := `{"id":"1","zone_id":2,"bucket_key":"k","action":"deny","reason":"","created_by":""}`; override != want {
		t.Errorf("override is %s, want %s", override, want)
	}
	_, limit := through(t, api.NewOverrideRequest(service.Override{Key: "k", Action: service.OverrideLimit, Window: service.Lasting(time.Second)}))
	if want := `{"bucket_key":"k","action":"limit","rate":0,"window":1}`; limit != want {
		t.Errorf("request is %s, want %s", limit, want)
	}
	_, decision := through(t, api.NewDecision(service.Decision{Degraded: true, Verdicts: []service.Verdict{
		{Bucket: service.Bucket{ZoneID: 1, Key: "k"}, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 5},
	}}))
	if want := `{"blocked":false,"would_block":false,"degraded":true,"retry_after":0,"buckets":[{"zone_id":1,"bucket_key":"k",` +
		`"blocked":false,"would_block":false,"rate":5,"window":60,"retry_after":0}]}`; decision != want {
		t.Errorf("degraded decision is %s, want %s", decision, want)
	}
	_, peek := through(t, api.NewPeek(service.Peek{At: service.At(at(1))}))
	for _, member := range []string{"locked_until", "override", "null"} {
		if strings.Contains(peek, member) {
			t.Errorf("%s has %s", peek, member)
		}
	}
	if _, check := through(t, api.NewCheck(service.Check{})); check != `{"buckets":[]}` {
		t.Errorf("check is %s", check)
	}
}

func TestEveryCodeStandsForItsError(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range api.Kinds() {
		found, known := api.KindOf(fmt.Errorf("do something: %w", kind.Err))
		problem := api.NewProblem(found)
		if !known || found != kind || !errors.Is(&problem, kind.Err) || problem.Status != kind.Status || problem.Title == "" || seen[kind.Code] {
			t.Errorf("%v is %+v, %+v", kind.Err, found, problem)
		}
		seen[kind.Code] = true
	}
	if kind, known := api.KindOf(errors.New("of no kind")); known || !errors.Is(kind.Err, api.ErrInternal) {
		t.Errorf("of no kind is %+v", kind)
	}
	for _, code := range []string{"", "of_next_year"} {
		if err := (&api.Problem{Title: "T", Code: code}).Unwrap(); err != nil {
			t.Errorf("code %q stands for %v", code, err)
		}
	}
	if text := (&api.Problem{Title: "T", Detail: "d."}).Error(); text != "T: d." {
		t.Errorf("says %s", text)
	}
}
