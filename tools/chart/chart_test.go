package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		for name, pod := range o.pods(t) {
			s := pod.SecurityContext
			if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 ||
				*s.FSGroup != 65532 ||
				s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: got %+v", name, s)
			}
			if mounts := pod.AutomountServiceAccountToken; mounts == nil || *mounts != (name == tokenJob) {
				t.Errorf("%s gets a token of the cluster, or the Job that needs one gets none", name)
			}
			c := pod.Containers[0]
			if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
				s.Privileged != nil ||
				!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: got %+v", name, s)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() ||
				c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: got resources %+v", name, c.Resources)
			}
		}
	})
}

// TestEachMountHasItsVolume finds also volumes without a mount, and files of secrets that each user could read.
func TestEachMountHasItsVolume(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		for name, pod := range o.pods(t) {
			volumes := map[string]core.Volume{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = v
				if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
					t.Errorf("%s: the secret %s has another mode than 0440, which velocityd demands", name, v.Name)
				}
				if v.ConfigMap != nil && v.ConfigMap.Name == o.config.Name && name != "Deployment" {
					t.Errorf("%s: a hook needs an object that the chart makes after it", name)
				}
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				v, isThere := volumes[m.Name]
				if !isThere || m.ReadOnly == (v.EmptyDir != nil) {
					t.Errorf("%s: got mount %+v of volume %+v", name, m, v)
				}
				delete(volumes, m.Name)
			}
			if len(volumes) > 0 {
				t.Errorf("%s mounts none of %q", name, slices.Sorted(maps.Keys(volumes)))
			}
		}
	})
}

func TestTheKubeletWaitsLongerThanTheServiceTakes(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		var takes time.Duration
		for _, name := range []string{"drain-delay", "shutdown-timeout"} {
			length, err := time.ParseDuration(o.settings(t)[name].(string))
			if err != nil {
				t.Fatal(err)
			}
			takes += length
		}
		if waits := o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; time.Duration(
			*waits)*time.Second <= takes {
			t.Errorf("the kubelet kills after %d s, and the service takes %s", *waits, takes)
		}
	})
}

func TestSelectorsFindServersPodsNotJobs(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		server, job := o.deployment.Spec.Template.Labels, o.job.Spec.Template.Labels
		selectors := []*meta.LabelSelector{o.deployment.Spec.Selector, o.budget.Spec.Selector, &o.network.Spec.PodSelector}
		for _, spread := range o.deployment.Spec.Template.Spec.TopologySpreadConstraints {
			selectors = append(selectors, spread.LabelSelector)
		}
		for _, s := range o.services {
			selectors = append(selectors, &meta.LabelSelector{MatchLabels: s.Spec.Selector})
		}
		if len(selectors) < 6 {
			t.Errorf("there are %d selectors, want 6 at least", len(selectors))
		}
		for _, selector := range selectors {
			if !matches(t, selector, server) || matches(t, selector, job) {
				t.Errorf("%v finds the wrong pods", selector)
			}
		}
	})
}

func TestPortsLeadToThePods(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		ports, c := map[string]int32{}, o.deployment.Spec.Template.Spec.Containers[0]
		for _, port := range c.Ports {
			ports[port.Name] = port.ContainerPort
		}
		if live, ready := c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port; live.StrVal != "http" ||
			ready != live {
			t.Errorf("probes ask at %v and %v", live, ready)
		}
		served := map[string]string{"http": o.settings(t)["listen"].(string)}
		if admin, isSet := o.settings(t)["admin-listen"].(string); isSet {
			served["admin"] = admin
		}
		if grpc, isSet := o.settings(t)["grpc-listen"].(string); isSet {
			served["grpc"] = grpc
		}
		reached := 0
		for _, s := range o.services {
			reached += len(s.Spec.Ports)
		}
		if len(ports) != len(served) || reached != len(served) {
			t.Errorf("the service has %v, its pod %v, and Services have %d ports", served, ports, reached)
		}
		for _, s := range o.services {
			for _, port := range s.Spec.Ports {
				if name := port.TargetPort.StrVal; served[name] != fmt.Sprint(":", ports[name]) {
					t.Errorf("Service %s leads to %s, which is %d in the pod and %q in the settings", s.Name, name, ports[name],
						served[name])
				}
			}
		}
	})
}

// TestNobodyIsLetInWhereNobodyIsNamed: a rule of a NetworkPolicy without peers lets everybody in.
func TestNobodyIsLetInWhereNobodyIsNamed(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		spec := o.network.Spec
		if want := []networking.PolicyType{"Ingress", "Egress"}; !slices.Equal(spec.PolicyTypes, want) {
			t.Errorf("got types %v, want %v", spec.PolicyTypes, want)
		}
		for _, rule := range spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 ||
				slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool { return p.Port == nil }) {
				t.Errorf("got rule %+v, which lets everybody in", rule)
			}
		}
		for _, rule := range spec.Egress {
			if len(rule.Ports) == 0 {
				t.Errorf("got rule %+v, which lets everything out", rule)
			}
		}
	})
}

func TestTheMonitorFindsAPortWithMetrics(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		if isWanted := o.settings(t)["admin-listen"] != nil; isWanted != (o.monitor != nil) {
			t.Fatal("the example with a second port has a ServiceMonitor, and the others have none")
		}
		if o.monitor == nil {
			return
		}
		end := o.monitor.Spec.Endpoints[0]
		if !slices.ContainsFunc(o.services, func(s *core.Service) bool {
			return matches(t, &o.monitor.Spec.Selector, s.Labels) && s.Spec.Ports[0].Name == end.Port
		}) || end.Path != "/metrics" || end.Authorization == nil {
			t.Errorf("got %+v for %v", end, o.services)
		}
	})
}

// TestFirstTokenJobMayFillOneSecret holds its rights, its account, its command and the order of hooks.
func TestFirstTokenJobMayFillOneSecret(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		if o.first == nil {
			if o.secret != nil || o.role != nil || o.binding != nil {
				t.Error("without the Job there are rights for it")
			}
			return
		}
		if len(o.secret.Data)+len(o.secret.StringData) > 0 ||
			!strings.Contains(o.secret.Annotations["helm.sh/hook-delete-policy"], "hook-failed") ||
			strings.Contains(o.secret.Annotations["helm.sh/hook-delete-policy"], "before") {
			t.Errorf("the Secret is not an empty one that stays: %+v", o.secret)
		}
		want := rbac.PolicyRule{
			Verbs: []string{"get", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{o.secret.Name},
		}
		if len(o.role.Rules) != 1 || !reflect.DeepEqual(o.role.Rules[0], want) {
			t.Errorf("the Job may %+v, want %+v", o.role.Rules, want)
		}
		pod := o.first.Spec.Template.Spec
		if s := o.binding.Subjects; len(s) != 1 || s[0].Name != pod.ServiceAccountName || s[0].Namespace != "login" ||
			o.binding.RoleRef.Name != o.role.Name {
			t.Errorf("the rights go to %+v of %+v, and the Job runs as %s", o.binding.RoleRef, s, pod.ServiceAccountName)
		}
		args := pod.Containers[0].Args
		if !slices.Equal(args[:2], []string{"token", "create"}) ||
			!slices.Equal(args[len(args)-2:], []string{"--out-secret", o.secret.Name}) {
			t.Errorf("the Job runs %q", args)
		}
		weight := func(o meta.Object) int {
			n, err := strconv.Atoi(cmp.Or(o.GetAnnotations()["helm.sh/hook-weight"], "0"))
			if err != nil || o.GetAnnotations()["helm.sh/hook"] != "pre-install,pre-upgrade" {
				t.Errorf("%s is no hook: %v", o.GetName(), err)
			}
			return n
		}
		if weight(o.first) <= weight(o.job) || weight(o.secret) >= weight(o.first) || weight(o.role) >= weight(o.first) ||
			weight(o.binding) >= weight(o.first) {
			t.Error("the Job does not come behind the schema, the Secret and its rights")
		}
	})
}

func TestGRPCDomainsAndWebhooksAreRenderedAsNamed(t *testing.T) {
	t.Parallel()
	made, err := render(chartFolder, "../../deploy/helm/examples/gates.yaml", "velocityd", "login")
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, made)
	var gates struct{ Gates, Domains map[string]any }
	if err := yaml.UnmarshalStrict([]byte(o.config.Data["gates.yaml"]), &gates); err != nil ||
		gates.Gates["login"] == nil || gates.Domains["login"] == nil {
		t.Errorf("%v: %+v", err, gates)
	}
	if ports := o.network.Spec.Ingress[0].Ports; len(ports) != 2 || ports[1].Port.StrVal != "grpc" {
		t.Errorf("callers reach %+v", ports)
	}
	last := o.network.Spec.Egress[len(o.network.Spec.Egress)-1]
	if last.Ports[0].Port.IntVal != 443 || len(last.To) != 1 || len(last.To[0].IPBlock.Except) != 3 {
		t.Errorf("webhooks go to %+v", last)
	}
}

func TestPrometheusRuleHasAlertsOfFile(t *testing.T) {
	t.Parallel()
	made, err := render(chartFolder, "../../deploy/helm/examples/monitored.yaml", "velocityd", "login")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../deploy/prometheus/velocityd.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var want monitoring.PrometheusRuleSpec
	if err := yaml.Unmarshal(text, &want); err != nil || len(want.Groups) == 0 {
		t.Fatalf("%v: %+v", err, want)
	}
	if got := decode(t, made).rule; got == nil || got.Labels["release"] != "prometheus" ||
		!reflect.DeepEqual(got.Spec, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHelmFindsNothingToSay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range lint.All(chartFolder, values, "login", true).Messages {
			if said.Severity >= support.WarningSev {
				t.Errorf("%s: %s", filepath.Base(file), said.Error())
			}
		}
	}
}

func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	const fine = "database: {existingSecret: s}\n"
	for values, want := range map[string]string{
		"{}":                                        "database.existingSecret: name a Secret",
		fine + "replicas: 2":                        "replicas",
		fine + "config: {listen: ':1'}":             "config.listen: another value",
		fine + "config: {tls-cert: /a}":             "config.tls-cert: another value",
		fine + "config: {coalesce: off}":            "coalesce",
		fine + "config: {nested: {a: b}}":           "nested",
		fine + "tls: {clientCASecret: a}":           "existingSecret",
		fine + "image: {digest: 'sha256:abc'}":      "digest",
		fine + "admin: {enabled: true, port: 0}":    "port",
		fine + "networkPolicy: {databasePorts: []}": "databasePorts",
		fine + "config: {grpc-listen: ':1'}":        "config.grpc-listen: another value",
		fine + "grpc: {enabled: true, port: 0}":     "port",
		fine + "token: {scopes: [chek]}":            "scopes",
		fine + "domains: {login: {zone: 1}}":        "domains",
		fine + "drainDelaySeconds: 5s":              "drainDelaySeconds",
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := render(chartFolder, file, "velocityd", "login"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", values, err, want)
		}
	}
}
