package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// Peek is that of the store, or ErrBusy.
func (p *place) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	if bucket.ZoneID == p.busyZone {
		return service.Peek{}, service.ErrBusy
	}
	return p.Store.Peek(ctx, bucket)
}

// shops makes many zones of users, with names, from zone 1 on.
func (p *place) shops(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		p.SetZone(t, service.Zone{
			ID: int64(i + 1), Description: fmt.Sprintf("Shop %04d", i+1), Rate: 5, Window: time.Hour, Lockout: time.Hour,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		})
	}
}

func TestManyZonesAreTypedAndFewAreChosen(t *testing.T) {
	t.Parallel()
	many, few := open(t), open(t)
	many.shops(t, 2000)
	few.shops(t, 20)
	for path, fields := range map[string]int{"": 1, "history": 1, "locked": 1, "attacks": 2, "overrides": 2, "audit": 1} {
		page := many.browser(t).gets(t, path, http.StatusOK)
		for _, choices := range regexp.MustCompile(`(?s)<select.*?</select>`).FindAllString(page, -1) {
			if n := strings.Count(choices, "<option"); n > 21 {
				t.Errorf("%q has a field of %d choices", path, n)
			}
		}
		if n := strings.Count(page, "data-zones"); n != fields {
			t.Errorf("%q has %d fields for a zone, want %d", path, n, fields)
		}
		page = few.browser(t).gets(t, path, http.StatusOK)
		if n := strings.Count(page, ">20 · Shop 0020</option>"); n != fields && path != "audit" {
			t.Errorf("%q has %d fields that choose zone 20, want %d", path, n, fields)
		}
	}
}

func TestNameOfOneZoneIsTakenForItsNumber(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.shops(t, 2000)
	b := p.browser(t)
	for path, text := range map[string]string{
		"history?blocked=true&zone=": "hop 1999", "locked?zone=": "SHOP 1999", "overrides?zone=": "1999 · Shop 1999",
		"audit?zone=": " shop 1999 ", "attacks?addresses=&users=": "shop 1999", "?zone=": "1999",
	} {
		page := b.gets(t, path+url.QueryEscape(text), http.StatusOK)
		if !strings.Contains(page, `value="1999 · Shop 1999"`) && !strings.Contains(page, `value="1999" placeholder`) {
			t.Errorf("%s%s shows %s", path, text, page)
		}
	}
	b.gets(t, "history?blocked=true&zone=shop+19", http.StatusBadRequest, "100 zones have this", ` value="shop 19" `,
		`aria-invalid="true" aria-describedby="wrong" autofocus`, `href="?blocked=true&amp;zone=1900"`,
		`type="hidden" name="blocked" value="true"`)
	b.gets(t, "history?zone=warehouse", http.StatusBadRequest, "No zone has this number, or this in its name.")
	form := url.Values{
		"zone": {"shop 19"}, "bucket_key": {"x"}, "action": {"deny"}, "lasts": {"never"}, "reason": {"ticket 4711"},
	}
	b.posts(t, "overrides", form, http.StatusBadRequest, "100 have these words:\n1900 · Shop 1900\n1901 · Shop 1901")
	form.Set("zone", "shop 1907")
	b.posts(t, "overrides", form, http.StatusOK, "The override holds")
	b.gets(t, "overrides?zone=1907", http.StatusOK, "Always deny", ">x</bdi>")
}

func TestZonesAreFilteredByName(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.shops(t, 60)
	b := p.browser(t)
	page := b.gets(t, "zones?name=shop+005", http.StatusOK, "Shop 0050", "Shop 0059", "10 zones of this name")
	lacks(t, page, "Shop 0049", "Further zones")
	page = b.gets(t, "zones?name=shop", http.StatusOK, "Further zones")
	next := strings.ReplaceAll(regexp.MustCompile(`\?name=shop&amp;after=25`).FindString(page), "&amp;", "&")
	b.gets(t, "zones"+next, http.StatusOK, "Shop 0026", "Shop 0050")
	b.gets(t, "zones?name=warehouse", http.StatusOK, "No zone has this number")
}

func TestSearchFindsZonesAndKeysOfManyZones(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.shops(t, 2000)
	p.ask(t, of(1999, "late bird"))
	b := p.browser(t)
	path, page := b.search(t, " Late Bird")
	if !strings.HasPrefix(path, "keys/") {
		t.Errorf("the key leads to %s", path)
	}
	contains(t, words(page), "Shop 1999", "Never seen in 1\u202f999 zones")
	if path, _ := b.search(t, "shop 1999"); path != "zones/1999" {
		t.Errorf("the name of a zone leads to %s", path)
	}
	if _, page := b.search(t, "shop 19"); strings.Count(page, `<a href="/console/zones/19`) != 10 {
		t.Errorf("the part of a name shows %s", page)
	}
	p.busyZone = 1999
	_, page = b.search(t, "late bird")
	contains(t, words(page), "late bird was not found in time. 1 zones could not be looked at")
	lacks(t, page, "Nothing here knows")
}
