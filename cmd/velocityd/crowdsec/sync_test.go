package crowdsec_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/cmd/velocityd/crowdsec"
	"velocityd/service"
	"velocityd/service/memory"
)

// lapi stands for a CrowdSec, and gives the answers of a test. The real one is asked in deploy/doors.
type lapi struct {
	answer  atomic.Pointer[string]
	startup atomic.Pointer[string] // of the newest question
}

func (l *lapi) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.FormValue("startup")
	l.startup.Store(&asked)
	fmt.Fprint(w, *l.answer.Load())
}

// bans returns the list of a stream with a ban of an hour for each address.
func bans(addresses ...string) string {
	var list []string
	for _, address := range addresses {
		list = append(list, fmt.Sprintf(`{"type":"ban","scope":"Ip","value":"%s","duration":"1h0m0.5s","scenario":"guessing"}`, address))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// newSync returns a Sync of zone 2, and its CrowdSec.
func newSync(t *testing.T) (*crowdsec.Sync, *lapi, *memory.Store) {
	t.Helper()
	store := memory.New()
	zone := service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}}
	if _, err := store.PutZone(t.Context(), zone, service.Match{}, ""); err != nil {
		t.Fatal(err)
	}
	l := &lapi{}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return crowdsec.New(crowdsec.LAPI{URL: server.URL, Key: "secret", HTTP: server.Client()}, store, crowdsec.Zones{Addresses: 2}), l, store
}

// denied lists the keys of the overrides.
func denied(t *testing.T, store *memory.Store) (keys []string) {
	t.Helper()
	all, err := service.AllOverrides(t.Context(), store, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		keys = append(keys, o.Key)
	}
	return keys
}

func TestABanThatIsMissingFromAListStays(t *testing.T) {
	t.Parallel()
	sync, l, store := newSync(t)
	for _, step := range []struct {
		answer, startup string
		want            []string
		fails           bool
	}{
		{`{"new":` + bans("203.0.113.1", "203.0.113.2") + `,"deleted":null}`, "true", []string{"203.0.113.1", "203.0.113.2"}, false},
		{`{"new":null,"deleted":` + bans("203.0.113.1") + `}`, "false", []string{"203.0.113.2"}, false},
		{`{"new":` + bans("203.0.113.3"), "false", []string{"203.0.113.2"}, true}, // cut short
		{`{"new":` + bans("203.0.113.3") + `,"deleted":null}`, "true", []string{"203.0.113.2", "203.0.113.3"}, false},
		{`{"new":null,"deleted":null}`, "false", []string{"203.0.113.2", "203.0.113.3"}, false},
	} {
		l.answer.Store(&step.answer)
		if _, err := sync.Round(t.Context()); (err != nil) != step.fails || err != nil && strings.Contains(err.Error(), "203.0.113") {
			t.Errorf("%s: %v", step.answer, err)
		}
		if got := denied(t, store); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q are denied, want %q", step.answer, got, step.want)
		}
		if got := *l.startup.Load(); got != step.startup {
			t.Errorf("%s: asked with startup %s, want %s", step.answer, got, step.startup)
		}
	}
}

func TestOverridesOfOthersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	sync, l, store := newSync(t)
	office := service.Override{ZoneID: 2, Key: "203.0.113.1", Action: service.OverrideAllow, Reason: "our office"}
	if _, err := store.AddOverride(t.Context(), office, ""); err != nil {
		t.Fatal(err)
	}
	round := func(answer string) crowdsec.Counts {
		l.answer.Store(&answer)
		counts, err := sync.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	if got, want := round(`{"new":`+bans("203.0.113.1", "203.0.113.2")+`}`), (crowdsec.Counts{Added: 1, Others: 1}); got != want {
		t.Errorf("did %+v, want %+v", got, want)
	}
	all, err := service.AllOverrides(t.Context(), store, 2)
	if err != nil {
		t.Fatal(err)
	}
	taken := all[1] // somebody makes the second one his
	taken.Reason = "for good"
	if _, err := store.SetOverride(t.Context(), taken, ""); err != nil {
		t.Fatal(err)
	}
	if got, want := round(`{"deleted":`+bans("203.0.113.1", "203.0.113.2")+`}`), (crowdsec.Counts{}); got != want {
		t.Errorf("did %+v, want %+v", got, want)
	}
	if got := denied(t, store); len(got) != 2 {
		t.Errorf("%q are left, want both", got)
	}
}

func TestDecisionsThatBanNothingAreCounted(t *testing.T) {
	t.Parallel()
	sync, l, store := newSync(t)
	answer := `{"new":[
		{"type":"captcha","scope":"Ip","value":"203.0.113.1","duration":"1h","scenario":"s"},
		{"type":"ban","scope":"Country","value":"XX","duration":"1h","scenario":"s"},
		{"type":"ban","scope":"Ip","value":"no address","duration":"1h","scenario":"s"},
		{"type":"ban","scope":"Ip","value":"203.0.113.2","duration":"soon","scenario":"s"},
		{"type":"ban","scope":"Ip","value":"203.0.113.3","duration":"1h","scenario":"s","simulated":true},
		{"type":"ban","scope":"Range","value":"203.0.113.77/24","duration":"1h","scenario":"a\u0000b"}]}`
	l.answer.Store(&answer)
	counts, err := sync.Round(t.Context())
	if want := (crowdsec.Counts{Added: 1, Unfit: 5}); err != nil || counts != want {
		t.Errorf("did %+v, want %+v: %v", counts, want, err)
	}
	all, err := service.AllOverrides(t.Context(), store, 2)
	if err != nil || len(all) != 1 || all[0].Prefix.String() != "203.0.113.0/24" || all[0].Reason != "crowdsec: unnamed" {
		t.Errorf("the overrides are %+v: %v", all, err)
	}
}

func FuzzReadStream(f *testing.F) {
	for _, text := range []string{`{"new":` + bans("203.0.113.1") + `,"deleted":null}`, `{"new":[]`, `null`, `[]`, `{"new":{}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if stream, err := crowdsec.ReadStream(strings.NewReader(text)); err != nil && len(stream.New)+len(stream.Deleted) > 0 {
			t.Errorf("an error with decisions: %+v", stream)
		}
	})
}
