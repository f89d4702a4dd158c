package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	scrape     = 15 * time.Second // of prometheus.yml
	staysQuiet = 2 * time.Minute  // after the end of a fault
)

// series is a metric in a healthy service and in a faulty one: at each scrape, the value of a gauge,
// or the increase of a counter.
type series struct {
	name           string
	isGauge        bool
	healthy, fault float64
}

// trials has for each alert the effect of its fault on metrics.
func trials() map[string][]series {
	decided := series{"velocityd_decisions_total{result=\"allowed\"}", false, 1500, 1500}
	others := func(but string) (all []series) {
		for _, name := range []string{"busy", "undecided", "failed", "refused"} {
			if name != but {
				all = append(all, series{"velocityd_" + name + "_total{reason=\"x\"}", false, 0, 0})
			}
		}
		return append(all, decided)
	}
	part := func(name string) []series {
		return append(others(name), series{"velocityd_" + name + "_total{reason=\"x\"}", false, 0, 150})
	}
	return map[string][]series{
		"VelocitydDown":         {{"up", true, 1, 0}},
		"VelocitydCannotDecide": {{"velocityd_database_up", true, 1, 0}},
		"VelocitydDegraded":     {{"velocityd_degraded_total{zone=\"1\",answer=\"allowed\"}", false, 0, 150}},
		"VelocitydUndecided":    part("undecided"),
		"VelocitydFailing":      part("failed"),
		"VelocitydBusy":         part("busy"),
		"VelocitydRefused":      part("refused"),
		"VelocitydSlow": {
			{"velocityd_check_duration_seconds_bucket{le=\"0.5\"}", false, 1500, 0},
			{"velocityd_check_duration_seconds_bucket{le=\"1\"}", false, 1500, 1500},
			{"velocityd_check_duration_seconds_bucket{le=\"+Inf\"}", false, 1500, 1500},
		},
		"VelocitydSaturated": {
			{"velocityd_lanes{lane=\"lone\"}", true, 4, 4},
			{"velocityd_lanes_busy{lane=\"lone\"}", true, 4, 4},
			{"velocityd_queue_length{lane=\"lone\"}", true, 40, 2000},
		},
		"VelocitydLocksHeld": {{"velocityd_lock_wait_timeouts_total", false, 0, 8}},
		"VelocitydDeadlocks": {{"velocityd_deadlocks_total", false, 0, 15}},
		"VelocitydConnectionsUsedUp": {
			{"velocityd_database_connection_wait_seconds_total{pool=\"checks\"}", false, 0.2, 60},
		},
		"VelocitydBlockedSurge":         {{"velocityd_checks_total{zone=\"1\",result=\"blocked\"}", false, 2, 1500}},
		"VelocitydManyLocked":           {{"velocityd_locked_buckets{zone=\"1\"}", true, 5, 5000}},
		"VelocitydCertificateNotLoaded": {{"velocityd_tls_files_loaded", true, 1, 0}},
		"VelocitydGatesNotLoaded":       {{"velocityd_gates_file_loaded", true, 1, 0}},
		"VelocitydRetentionStandsStill": {
			{"velocityd_retention_succeeded_timestamp_seconds{task=\"old_txns\"}", true, 90 * 86400, -2 * 86400},
		},
		"VelocitydWebhookLags":        {{"velocityd_webhook_lag_seconds{webhook=\"1\"}", true, 4, 3600}},
		"VelocitydWebhookGaveUp":      {{"velocityd_webhook_deliveries{webhook=\"1\",state=\"dead\"}", true, 0, 2}},
		"VelocitydCertificateExpires": {{"velocityd_tls_certificate_not_after_seconds", true, 90 * 86400, 3 * 86400}},
		"VelocitydVersionsDiffer": {
			{"velocityd_build_info{version=\"1\"}", true, 1, 1},
			{"velocityd_build_info{version=\"2\"}", true, gone, 1},
		},
	}
}

// gone is the value of a series that is not there.
const gone = -1

// values writes a series over a timeline that says for each scrape whether there is a fault.
func (s series) values(timeline []bool) string {
	var text strings.Builder
	total := 0.0
	for _, isFaulty := range timeline {
		value := s.healthy
		if isFaulty {
			value = s.fault
		}
		switch {
		case value == gone:
			text.WriteString("stale ")
			continue
		case !s.isGauge:
			total += value
			value = total
		}
		fmt.Fprintf(&text, "%g ", value)
	}
	return text.String()
}

// trial is the promtool test of one alert: a blip that one scrape meets, a fault that stays for as long
// as the alert waits and five minutes, and its end.
func trial(t *testing.T, rule alert, metrics []series) string {
	t.Helper()
	waits, err := time.ParseDuration(rule.For)
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	calm := 15 * time.Minute // before the blip and after it
	if strings.Contains(rule.Expr, "offset 1h") {
		calm += time.Hour
	}
	var timeline []bool
	last := func(d time.Duration, isFaulty bool) time.Duration {
		for range int(d / scrape) {
			timeline = append(timeline, isFaulty)
		}
		return time.Duration(len(timeline)-1) * scrape
	}
	last(calm, false)
	last(scrape, true)
	blipEnds := last(calm, false)
	faultEnds := last(waits+5*time.Minute, true)
	isOver := faultEnds + staysQuiet
	last(2*staysQuiet, false)
	var text strings.Builder
	fmt.Fprintf(&text, "  - name: %s\n    interval: %s\n    input_series:\n", rule.Alert, scrape)
	for _, s := range metrics {
		name, labels, _ := strings.Cut(strings.TrimSuffix(s.name, "}"), "{")
		fmt.Fprintf(&text, "      - { series: %s, values: %s }\n",
			quoted(name+`{job="velocityd",instance="a",`+labels+"}"), quoted(s.values(timeline)))
	}
	firing := fmt.Sprintf("count(ALERTS{alertname=%q,alertstate=\"firing\"})", rule.Alert)
	fmt.Fprintf(&text, "    promql_expr_test:\n")
	for _, look := range []struct {
		expr  string
		at    time.Duration
		fires bool
	}{
		{fmt.Sprintf("max_over_time(%s[%ds:%s])", firing, int(blipEnds.Seconds()), scrape), blipEnds, false},
		{firing, faultEnds, true},
		{firing, isOver, false},
	} {
		samples := "[]"
		if look.fires {
			samples = "[{ labels: '{}', value: 1 }]"
		}
		fmt.Fprintf(&text, "      - { expr: %s, eval_time: %s, exp_samples: %s }\n", quoted(look.expr), look.at, samples)
	}
	return text.String()
}

// TestAlertsIgnoreBlipsAndFireWhileFaultsLast holds as well that it stops within two minutes.
func TestAlertsIgnoreBlipsAndFireWhileFaultsLast(t *testing.T) {
	t.Parallel()
	folder, known, all := t.TempDir(), trials(), rules(t)
	args := []string{"test", "rules"}
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, rule := range all {
		if rule.Alert == "" {
			continue
		}
		if known[rule.Alert] == nil {
			t.Errorf("no trial makes %s fire", rule.Alert)
		}
		alone := write(rule.Alert+".rules.yml", needed(t, all, rule))
		args = append(args, write(rule.Alert+".yml", fmt.Sprintf("rule_files: [%s]\nevaluation_interval: %s\ntests:\n%s",
			quoted(alone), scrape, trial(t, rule, known[rule.Alert]))))
	}
	promtool(t, args...)
}

// needed is a file of rules with an alert and the recording rules that it needs: promtool evaluates each rule of a file
// in each of its trials.
func needed(t *testing.T, all []alert, rule alert) string {
	t.Helper()
	chosen, exprs := []alert{rule}, rule.Expr
	for _, r := range slices.Backward(all) { // a rule stands behind those that it needs
		if r.Record != "" && strings.Contains(exprs, r.Record) {
			chosen, exprs = append(chosen, r), exprs+" "+r.Expr
		}
	}
	slices.Reverse(chosen)
	var rules []map[string]string
	for _, r := range chosen {
		if r.Record != "" {
			rules = append(rules, map[string]string{"record": r.Record, "expr": r.Expr})
		} else {
			rules = append(rules, map[string]string{"alert": r.Alert, "expr": r.Expr, "for": r.For})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "needed", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
