package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestHealthTellsReadyServiceFromMerelyLiveOne(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: 60e9})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
	env := environment{"VELOCITY_URL": i.url}
	for _, of := range []string{"ready", "live"} {
		if r := command(env, nil, "health", of); r.code != exitSuccess || r.stdout != of+"\n" {
			t.Errorf("health %s: got %+v", of, r)
		}
	}
	enginetest.Exec(t, d.SQL, "RENAME TABLE zone_txn TO zone_txn_away")
	t.Cleanup(func() { enginetest.Exec(t, d.SQL, "RENAME TABLE zone_txn_away TO zone_txn") })
	eventuallyStatus(t, i.url+"/readyz", http.StatusServiceUnavailable)
	if r := command(env, nil, "health"); r.code != exitError || !strings.Contains(r.stderr, "is not ready: Not ready: ") {
		t.Errorf("without a table: got %+v", r)
	}
	if r := command(env, nil, "health", "live"); r.code != exitSuccess {
		t.Errorf("without a table: got %+v", r)
	}
}

func TestHealthTellsFailureAndShowsNoPassword(t *testing.T) {
	t.Parallel()
	strange := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(strange.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]string{
		strange.URL: "is not ready: 404 Not Found",
		gone.URL:    "connection refused",
		strings.Replace(gone.URL, "//", "//probe:hush@", 1): "connection refused",
	} {
		r := command(nil, nil, "health", "--url", url)
		if r.code != exitError || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "hush") {
			t.Errorf("%s: got %+v, want %q", url, r, want)
		}
	}
	if r := command(nil, nil, "health", "--url", "velocityd:8080"); r.code != exitUsage {
		t.Errorf("got %+v, want wrong usage", r)
	}
}
