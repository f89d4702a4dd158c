// Package deploy_test holds the files for monitoring: the rules of Prometheus, by
// promtool, and the dashboard of Grafana. It must not know the service: a test of cmd/velocityd
// asks whether a running one exports the metrics that are named here.
package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "prometheus/velocityd.rules.yml"
	dashboardFile = "grafana/velocityd.json"
)

// alert is a rule that alerts.
type alert struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// rules returns the rules, recording ones and alerts.
func rules(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool runs Prometheus' own tool, which `make test` fetches by tools/promtool.sh. Without it
// the test is skipped, but not with CI=true.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	name, err := exec.LookPath("promtool")
	if err != nil {
		name = filepath.Join(cache(), "tools", "promtool")
		_, err = os.Stat(name)
	}
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("there is no promtool (tools/promtool.sh fetches it): %v", err)
	case err != nil:
		t.Skip("there is no promtool: tools/promtool.sh fetches it")
	}
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
	}
}

// cache returns the folder in which the scripts keep their downloads.
func cache() string {
	if folder := os.Getenv("VELOCITY_CACHE"); folder != "" {
		return folder
	}
	folder, _ := os.UserCacheDir()
	return filepath.Join(folder, "velocityd")
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", rulesFile)
	promtool(t, "check", "config", "prometheus/prometheus.yml")
}

// TestEachAlertHasAnEntryForTheOperator follows runbook_url, and finds entries whose alert is gone.
func TestEachAlertHasAnEntryForTheOperator(t *testing.T) {
	t.Parallel()
	var headings []string
	for _, heading := range regexp.MustCompile(`(?m)^### (Velocityd\w+)$`).FindAllStringSubmatch(
		read(t, "../docs/operate.md"), -1) {
		headings = append(headings, heading[1])
	}
	var alerts []string
	for _, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		alerts = append(alerts, rule.Alert)
		if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}
		for _, name := range []string{"summary", "description"} {
			if rule.Annotations[name] == "" {
				t.Errorf("%s has no %s", rule.Alert, name)
			}
		}
		const docs = `{{ or $externalLabels.velocityd_docs "https://velocityd.example/docs" }}`
		if got, want := rule.Annotations["runbook_url"], docs+"/operate.md#"+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, got, want)
		}
	}
	if !slices.Equal(headings, alerts) {
		t.Errorf("docs/operate.md must have one entry for each alert, in the order of the rules:\n got %q\nwant %q", headings,
			alerts)
	}
}

// TestServiceFilesNameOnlyDocumentedSettings holds the unit, its drop-in and the file of settings against the
// page's table.
func TestServiceFilesNameOnlyDocumentedSettings(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/operate.md")
	for file, pattern := range map[string]string{
		"systemd/velocityd.service": `--[a-z-]+`, "systemd/tls.conf": `VELOCITY_[A-Z_]+`,
		"packages/velocityd.yaml": `(?m)^[a-z-]+`,
	} {
		settings := regexp.MustCompile(pattern).FindAllString(read(t, file), -1)
		for _, setting := range settings {
			if !strings.Contains(page, "`"+setting+"`") && !strings.Contains(page, "`--"+setting+"`") {
				t.Errorf("%s: docs/operate.md does not know %s", file, setting)
			}
		}
		if len(settings) == 0 || !strings.Contains(page, "../deploy/"+file) {
			t.Errorf("%s has no settings, or docs/operate.md does not link it", file)
		}
	}
}

// panel is a panel of the dashboard, which may have others inside.
type panel struct {
	Title, Type, Description string
	Targets                  []struct{ Expr string }
	Panels                   []panel
	GridPos                  struct{ H, W, X, Y int }
}

// dashboard is the part of the dashboard's file that the test looks at.
type dashboard struct {
	UID           string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type, Query string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Fatalf("no dashboard: %+v", d)
	}
	return d
}

func TestEveryExpressionOfTheDashboardParses(t *testing.T) {
	t.Parallel()
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	text, exprs := "groups:\n- name: dashboard\n  rules:\n", 0
	for _, p := range readDashboard(t).Panels {
		if p.Title == "" || p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %q has no title, no expression or no description", p.Title)
		}
		for _, target := range p.Targets {
			exprs++
			text += fmt.Sprintf("  - record: panel:%d\n    expr: %s\n", exprs, quoted(variables.Replace(target.Expr)))
		}
	}
	if exprs < 15 {
		t.Errorf("the dashboard has %d expressions only", exprs)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// quoted returns text as a string of JSON, which YAML reads as well.
func quoted(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q does not fit: %+v", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
