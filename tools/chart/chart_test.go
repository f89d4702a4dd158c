package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		for name, pod := range o.pods(t) {
			s := pod.SecurityContext
			if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 || *s.FSGroup != 65532 ||
				s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: got %+v", name, s)
			}
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s gets a token of the cluster", name)
			}
			c := pod.Containers[0]
			if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Privileged != nil ||
				!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: got %+v", name, s)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: got resources %+v", name, c.Resources)
			}
		}
	})
}

// TestEachMountHasItsVolume finds volumes that nobody mounts as well, and files of secrets that everybody could read.
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
					t.Errorf("%s: a hook needs what the chart makes after it", name)
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
				t.Errorf("%s mounts none of %q", name, sorted(volumes))
			}
		}
	})
}

// TestEachFileOfTheSettingsIsMounted holds the paths in the file of settings against the mounts.
func TestEachFileOfTheSettingsIsMounted(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		c := o.deployment.Spec.Template.Spec.Containers[0]
		paths := []string{c.Args[len(c.Args)-1]}
		for _, value := range o.settings(t) {
			if text, isText := value.(string); isText && strings.HasPrefix(text, "/") {
				paths = append(paths, text)
			}
		}
		for _, file := range paths {
			if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return file == m.MountPath || path.Dir(file) == m.MountPath }) {
				t.Errorf("nothing is mounted for %s", file)
			}
		}
		if len(paths) < 3 {
			t.Errorf("got the paths %q alone", paths)
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
		if waits := o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; time.Duration(*waits)*time.Second <= takes {
			t.Errorf("the kubelet kills after %d s, and the service takes %s", *waits, takes)
		}
	})
}

func TestProbesAskWhatTheServiceAnswers(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		c := o.deployment.Spec.Template.Spec.Containers[0]
		scheme := core.URISchemeHTTP
		if o.settings(t)["tls-cert"] != nil {
			scheme = core.URISchemeHTTPS
		}
		for paths, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz /readyz?degraded=ok": c.ReadinessProbe} {
			ask := probe.HTTPGet
			if !slices.Contains(strings.Fields(paths), ask.Path) || ask.Scheme != scheme || ask.Port.StrVal != "http" {
				t.Errorf("got %+v, want %s by %s", ask, paths, scheme)
			}
		}
	})
}

func TestSelectorsFindTheServersPodsAndNotTheJobs(t *testing.T) {
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
		ports := map[string]int32{}
		for _, port := range o.deployment.Spec.Template.Spec.Containers[0].Ports {
			ports[port.Name] = port.ContainerPort
		}
		served := map[string]string{"http": o.settings(t)["listen"].(string)}
		if admin, isSet := o.settings(t)["admin-listen"].(string); isSet {
			served["admin"] = admin
		}
		if len(ports) != len(served) || len(o.services) != len(served) {
			t.Errorf("the service has %v, its pod %v, and there are %d Services", served, ports, len(o.services))
		}
		for _, s := range o.services {
			for _, port := range s.Spec.Ports {
				if name := port.TargetPort.StrVal; served[name] != fmt.Sprint(":", ports[name]) {
					t.Errorf("Service %s leads to %s, which is %d in the pod and %q in the settings", s.Name, name, ports[name], served[name])
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
			if len(rule.From) == 0 || len(rule.Ports) != 1 {
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
