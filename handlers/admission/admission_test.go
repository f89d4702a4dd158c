package admission_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

func TestBoundCallerReachesTxnsOfItsZonesAlone(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	for id := range int64(2) {
		memory.SetZone(t, service.Zone{ID: id + 1, Rate: 1000, Window: time.Hour})
	}
	var checks []service.Report
	for i, buckets := range [][]service.Bucket{
		{{ZoneID: 1, Key: "a"}},
		{{ZoneID: 2, Key: "a"}},
		{{ZoneID: 1, Key: "b"}, {ZoneID: 2, Key: "b"}},
	} {
		decisions, err := memory.CheckAll(
			t.Context(), service.Call{Checks: []service.Check{{Buckets: buckets, AttemptID: fmt.Sprint(i)}}})
		if err != nil {
			t.Fatal(err)
		}
		checks = append(checks, service.Report{TxnID: decisions[0].TxnID()}, service.Report{AttemptID: fmt.Sprint(i)})
	}
	admission := admission.Admission{Txns: memory}
	for want, caller := range map[string]access.Caller{
		"[true true true true true true true true]":       {},
		"[true true false false false false false false]": {Zones: []int64{1}},
		"[true true true true true true false false]":     {Zones: []int64{1, 2}},
	} {
		reached, err := admission.Reachable(t.Context(), caller,
			append(checks, service.Report{TxnID: 1000}, service.Report{AttemptID: "x"})...)
		if err != nil || fmt.Sprint(reached) != want {
			t.Errorf("zones %v: %v, %v, want %s", caller.Zones, reached, err, want)
		}
	}
}

func TestAskerIsToldMissingScopesAndZones(t *testing.T) {
	t.Parallel()
	check, report := []access.Scope{access.ScopeCheck}, []access.Scope{access.ScopeReport}
	asker := func(zones []int64, has, needs []access.Scope) admission.Caller {
		return admission.Caller{Caller: access.Caller{Name: "shop", Scopes: has, Zones: zones}, Needs: needs}
	}
	twoZones := service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "a"}, {ZoneID: 2, Key: "a"}}}
	for i, c := range []struct {
		err  error
		want string
	}{
		{asker(nil, check, check).May(), ""},
		{asker(nil, check, nil).May(), ""},
		{asker(nil, []access.Scope{access.ScopeAdmin}, check).May(), ""},
		{asker(nil, check, report).May(), "The credential shop lacks the scope report."},
		{asker(nil, nil, append(check, report...)).May(), "The credential shop lacks one of the scopes check, report."},
		{asker(nil, check, check).MayEverywhere(), ""},
		{asker([]int64{1}, check, check).MayEverywhere(), "The credential shop lacks the scope check in all zones."},
		{asker([]int64{1}, check, check).MayIn(1), ""},
		{asker([]int64{1}, check, check).MayIn(2), "The credential shop lacks the scope check in zone 2."},
		{admission.Caller{}.MayCheck(twoZones), ""},
		{asker([]int64{1}, check, check).MayCheck(twoZones), "The credential shop lacks the scope check in zone 2."},
	} {
		var lack *admission.ScopeError
		if (c.err == nil) != (c.want == "") || c.err != nil &&
			(c.err.Error() != c.want || !errors.Is(c.err, access.ErrMissingScope)) {
			t.Errorf("%d: %v, want %q", i, c.err, c.want)
		}
		if errors.As(c.err, &lack) && i == 10 && lack.Bucket != 1 {
			t.Errorf("the lack is in bucket %d", lack.Bucket)
		}
	}
}

func TestTokenIsFoundInSchemeCredentialsAlone(t *testing.T) {
	t.Parallel()
	token := access.NewToken().Reveal()
	basic := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for text, want := range map[string]bool{
		"Bearer " + token: true, "bearer   " + token: true, "Basic " + basic("anybody:"+token): true,
		"BASIC " + basic(":"+token): true,
		token:                       false, "": false, "Bearer": false, "Bearer " + token[1:]: false,
		"Basic " + basic(token): false, "Digest " + token: false,
		"Basic " + basic("a:"+token+"ab") + "=": false, "Basic " + basic("anyone:"+token) + "*": false,
		"Basic " + basic(strings.Repeat("a", 600)+":"+token): false,
	} {
		if _, ok := admission.TokenOf([]string{text}, nil); ok != want {
			t.Errorf("%q: %t", text, ok)
		}
	}
}
