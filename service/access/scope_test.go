package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestScopesHoldForThemselvesAndAdminForAll(t *testing.T) {
	t.Parallel()
	for _, held := range Scopes() {
		for _, wanted := range Scopes() {
			c := Caller{Name: "c", Scopes: []Scope{held}}
			if want := held == wanted || held == ScopeAdmin; c.Has(wanted) != want {
				t.Errorf("%s has %s: %t", held, wanted, !want)
			}
		}
	}
	if (Caller{}).Has(ScopeCheck) {
		t.Error("a caller without scopes has one")
	}
}

func TestCallersReachTheirBoundZones(t *testing.T) {
	t.Parallel()
	bound := Caller{Zones: []int64{2, 7}}
	for zone, want := range map[int64]bool{1: false, 2: true, 7: true, 27: false, 0: false} {
		if bound.Reaches(zone) != want || !(Caller{}).Reaches(zone) {
			t.Errorf("zone %d: want %t, and everything for an unbound caller", zone, want)
		}
	}
}

func TestCredentialsAreValidated(t *testing.T) {
	t.Parallel()
	good := Caller{Name: "auth-server", Scopes: []Scope{ScopeCheck}}
	with := func(change func(*Caller)) Credential {
		c := good
		change(&c)
		return NewTokenCredential(NewToken(), c)
	}
	expiring := func(at time.Time) Credential {
		c := NewTokenCredential(NewToken(), good)
		c.ExpiresAt.Time = at
		return c
	}
	for name, c := range map[string]struct {
		credential Credential
		field      string
	}{
		"good":                 {with(func(*Caller) {}), ""},
		"longest name":         {with(func(c *Caller) { c.Name = strings.Repeat("a", 48) }), ""},
		"all in a name":        {with(func(c *Caller) { c.Name = "A.b_c-d@9" }), ""},
		"no name":              {with(func(c *Caller) { c.Name = "" }), "name"},
		"name too long":        {with(func(c *Caller) { c.Name = strings.Repeat("a", 49) }), "name"},
		"name like an id":      {with(func(c *Caller) { c.Name = "7" }), "name"},
		"name with a space":    {with(func(c *Caller) { c.Name = "a b" }), "name"},
		"name with a line end": {with(func(c *Caller) { c.Name = "a\n" }), "name"},
		"name not ASCII":       {with(func(c *Caller) { c.Name = "aé" }), "name"},
		"no scope":             {with(func(c *Caller) { c.Scopes = nil }), "scopes"},
		"unknown scope":        {with(func(c *Caller) { c.Scopes = []Scope{"check", "root"} }), "scopes"},
		"metrics of a zone": {
			with(func(c *Caller) { c.Scopes, c.Zones = []Scope{ScopeCheck, ScopeMetrics}, []int64{1} }),
			"scopes",
		},
		"zone 0":               {with(func(c *Caller) { c.Zones = []int64{0} }), "zones"},
		"zones":                {with(func(c *Caller) { c.Zones = make([]int64, 0) }), ""},
		"too many zones":       {with(func(c *Caller) { c.Zones = slices.Repeat([]int64{1}, 257) }), "zones"},
		"expiry":               {expiring(time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)), ""},
		"absurd expiry":        {expiring(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)), "expires_at"},
		"subject":              {NewCertificateCredential("CN=auth-1,O=Example", good), ""},
		"a comma in a name":    {NewCertificateCredential(`CN=auth-1,O=Example\, Inc.`, good), ""},
		"escaped edges":        {NewCertificateCredential(`CN=\#a\+b \ ,O=x#`, good), ""},
		"parts together":       {NewCertificateCredential("CN=a+SERIALNUMBER=7,1.2.840.113549.1.9.1=#130161", good), ""},
		"a space":              {NewCertificateCredential("CN=auth-1, O=Example", good), "subject"},
		"a space by OpenSSL":   {NewCertificateCredential("CN = auth-1", good), "subject"},
		"a space at an end":    {NewCertificateCredential("CN=auth-1 ,O=Example", good), "subject"},
		"small letters":        {NewCertificateCredential("cn=auth-1,o=Example", good), "subject"},
		"a name of OpenSSL's":  {NewCertificateCredential("CN=auth-1,emailAddress=a@example.org", good), "subject"},
		"slashes":              {NewCertificateCredential("/O=Example/CN=auth-1", good), "subject"},
		"an empty part":        {NewCertificateCredential("CN=auth-1,,O=Example", good), "subject"},
		"an empty end":         {NewCertificateCredential("CN=auth-1,", good), "subject"},
		"an empty value":       {NewCertificateCredential("CN=auth-1,O=", good), "subject"},
		"no type":              {NewCertificateCredential("auth-1", good), "subject"},
		"quotes":               {NewCertificateCredential(`CN=auth-1,O="Example, Inc."`, good), "subject"},
		"an escape of letters": {NewCertificateCredential(`CN=auth\-1`, good), "subject"},
		"capital digits":       {NewCertificateCredential("1.2.3=#AB", good), "subject"},
		"no subject":           {NewCertificateCredential(" ", good), "subject"},
		"subject of two lines": {NewCertificateCredential("CN=a\nb", good), "subject"},
		"subject too long":     {NewCertificateCredential("CN="+strings.Repeat("a", 512), good), "subject"},
	} {
		err := c.credential.Validate()
		var field *service.FieldError
		if errors.As(err, &field); (c.field == "") != (err == nil) || err != nil &&
			(!errors.Is(err, service.ErrInvalid) || field.Field != c.field) {
			t.Errorf("%s: %v, want a fault of %q", name, err, c.field)
		}
	}
}
