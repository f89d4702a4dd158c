package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

func TestMisspeltVariablesAreRefusedByEveryCommand(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"VELOCITY_REQIRE_AUTH":    "did you mean VELOCITY_REQUIRE_AUTH?",
		"VELOCITYD_DSN":           "did you mean VELOCITY_DSN?",
		"VELOCTIY_TOKEN":          "did you mean VELOCITY_TOKEN?",
		"velocity_dsn":            "did you mean VELOCITY_DSN?",
		"VELOCITY_TRUSTED_PROXY":  "did you mean VELOCITY_TRUSTED_PROXIES?",
		"VELOCITY_DSNFILE":        "did you mean VELOCITY_DSN_FILE?",
		"VELOCITY_INSECURENOAUTH": "did you mean VELOCITY_INSECURE_NO_AUTH?",
	} {
		for _, args := range []string{
			"serve", "dev", "zone list", "token list", "check 1 alice", "proxy --upstream http://127.0.0.1:1 --login /x",
			"migrate status",
			"gate lint none",
		} {
			r := command(environment{name: "1"}, nil, strings.Fields(args)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, name) {
				t.Errorf("%s %s: %+v", name, args, r)
			}
		}
	}
}

func TestVariablesOfOthersAreTaken(t *testing.T) {
	t.Parallel()
	own := []string{
		"VELOCITY_TOKEN=x", "VELOCITY_CACHE=x", "VELOCITY_URL=x", "VELOCITY_TEST_DSN=x", "VELOCITY_TEST_ENGINES=x",
		"VELOCITY_LISTEN=x",
		"VELOCITYD_PORT=tcp://10.0.0.1:8080", "VELOCITYD_SERVICE_HOST=10.0.0.1", "VELOCITYD_SERVICE_PORT_HTTP=8080",
		"VELOCITYD_PORT_8080_TCP_PROTO=tcp", "VELODROME=x", "HOME=/", "PATH=", "_=x", "LINES=1",
	}
	if unknown, err := unknownVariables(own); err != nil || len(unknown) > 0 {
		t.Errorf("got %v (%v)", unknown, err)
	}
	others := []string{ // of the project's tools and tests, of Kubernetes for a Service velocity, and of nobody
		"VELOCITY_CLAIMS=x", "VELOCITY_CLUSTER_DSN=x", "VELOCITY_DEBIAN=x", "VELOCITY_DOORS=x", "VELOCITY_FRONT=x",
		"VELOCITY_PORT=x",
		"VELOCITY_PORT_8080_TCP=x", "VELOCITY_SERVICE_HOST=x", "VELOCITY_TLS=x", "VELOCITY_VITESS=x", "VELOCITY_WHATEVER=x",
	}
	want := make([]string, len(others))
	for i, line := range others {
		want[i] = strings.TrimSuffix(line, "=x")
	}
	if unknown, err := unknownVariables(slices.Clone(others)); err != nil || !slices.Equal(unknown, want) {
		t.Errorf("got %v (%v), want %v", unknown, err, want)
	}
}

func TestServeWarnsOfVariablesWithoutEffect(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	i := start(t, environment{"VELOCITY_DSN": d.DSN, "VELOCITY_AUTH_IS_REQUIRED": "true"}, "serve")
	mustAsk(t, i.url+"/readyz", "", http.StatusOK)
	if !strings.Contains(i.stderr.String(), `"variables":["VELOCITY_AUTH_IS_REQUIRED"]`) {
		t.Error("the log does not name the variable")
	}
}

func TestEmptyEntriesOfListsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"token create x --scope check,", "token create x --scope ,check", "token create x --scope check,,report",
		"token create x --scope ,", "token create x --scope check --zone 1,", "token create x --scope check --zone=1,,2",
		"webhook add https://hooks.example --events bucket.locked,", "webhook add https://hooks.example --zone ,1",
		"serve --allowed-hosts a,,b", "serve --trusted-proxies 10.0.0.1,", "serve --webhook-hosts ,a",
		"serve --address-db x.mmdb,", "changes --subject zone,", "changes --action ,insert", "subject export x --zone 1,",
		"proxy --upstream http://127.0.0.1:1 --login /x,", "txn list --zone 1,", "events list --type zone.*,",
		"backtest --zone 1 --rate 1,", "backtest --zone 1 --window ,1m",
	} {
		r := command(environment{}, nil, strings.Fields(args)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "is empty") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	blank := command(environment{}, nil, "token", "create", "x", "--scope", "check, ")
	inVariable := command(environment{"VELOCITY_ALLOWED_HOSTS": "a,"}, nil, "serve")
	file := fileOf(t, "settings", "trusted-proxies: 10.0.0.1,\n")
	inFile := command(environment{"VELOCITY_CONFIG": file}, nil, "serve")
	for _, r := range []result{blank, inVariable, inFile} {
		if r.code != exitUsage || !strings.Contains(r.stderr, "is empty") {
			t.Errorf("%+v", r)
		}
	}
}

func TestBlanksAroundEntriesOfListsAreLeftOut(t *testing.T) {
	t.Parallel()
	_, env := databaseOf(t)
	newToken(t, env, "spaced", "--scope", "check, report", "--zone", "1 ,2")
	if out := must(t, env, "token", "list"); !strings.Contains(out, "check,report") || !strings.Contains(out, "1,2") {
		t.Errorf("%s", out)
	}
}
