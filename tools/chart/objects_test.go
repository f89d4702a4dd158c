package main

import (
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = "../../deploy/helm/velocityd"
	examples    = "../../deploy/helm/examples/*.yaml"
	tokenJob    = "Job of the first token"
)

// objects are the rendered manifests, each decoded into the type of its kind, which refuses names that it lacks.
type objects struct {
	config     *core.ConfigMap
	deployment *apps.Deployment
	job        *batch.Job // of the schema
	first      *batch.Job // of the first token
	secret     *core.Secret
	role       *rbac.Role
	binding    *rbac.RoleBinding
	rule       *monitoring.PrometheusRule
	services   []*core.Service
	account    *core.ServiceAccount
	budget     *policy.PodDisruptionBudget
	network    *networking.NetworkPolicy
	monitor    *monitoring.ServiceMonitor
	notes      string
}

// eachExample runs a test with the objects of each example, and the values that it gives.
func eachExample(t *testing.T, test func(t *testing.T, o objects)) {
	t.Helper()
	files, err := filepath.Glob(examples)
	if err != nil || len(files) < 4 {
		t.Fatalf("got %q (%v), want the examples", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			made, err := render(chartFolder, file, "velocityd", "login")
			if err != nil {
				t.Fatal(err)
			}
			test(t, decode(t, made))
		})
	}
}

// decode decodes each document by its kind.
func decode(t *testing.T, made manifests) (o objects) {
	t.Helper()
	o.notes = made[notes]
	for _, document := range strings.Split(made.text(), "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ConfigMap":
			o.config = strict(t, document, new(core.ConfigMap))
		case "apps/v1 Deployment":
			o.deployment = strict(t, document, new(apps.Deployment))
		case "batch/v1 Job":
			if job := strict(t, document, new(batch.Job)); strings.HasSuffix(job.Name, "-token") {
				o.first = job
			} else {
				o.job = job
			}
		case "v1 Secret":
			o.secret = strict(t, document, new(core.Secret))
		case "rbac.authorization.k8s.io/v1 Role":
			o.role = strict(t, document, new(rbac.Role))
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			o.binding = strict(t, document, new(rbac.RoleBinding))
		case "monitoring.coreos.com/v1 PrometheusRule":
			o.rule = strict(t, document, new(monitoring.PrometheusRule))
		case "v1 Service":
			o.services = append(o.services, strict(t, document, new(core.Service)))
		case "v1 ServiceAccount":
			if account := strict(t, document, new(core.ServiceAccount)); !strings.HasSuffix(account.Name, "-token") {
				o.account = account
			}
		case "policy/v1 PodDisruptionBudget":
			o.budget = strict(t, document, new(policy.PodDisruptionBudget))
		case "networking.k8s.io/v1 NetworkPolicy":
			o.network = strict(t, document, new(networking.NetworkPolicy))
		case "monitoring.coreos.com/v1 ServiceMonitor":
			o.monitor = strict(t, document, new(monitoring.ServiceMonitor))
		default:
			t.Errorf("nothing holds a %s %s:\n%s", kind.APIVersion, kind.Kind, document)
		}
	}
	return o
}

// strict decodes a document into an object, which must have a legal name and no namespace, as helm sets it.
func strict[T interface{ GetName() string }](t *testing.T, document string, into T) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	if !strings.HasPrefix(into.GetName(), "velocityd") {
		t.Errorf("got the name %q", into.GetName())
	}
	return into
}

// settings returns the rendered file of settings.
func (o objects) settings(t *testing.T) map[string]any {
	t.Helper()
	var all map[string]any
	if err := yaml.UnmarshalStrict([]byte(o.config.Data["velocityd.yaml"]), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// pods returns each pod of the chart with the source of its name, that of the notes too.
func (o objects) pods(t *testing.T) map[string]core.PodSpec {
	t.Helper()
	_, text, found := strings.Cut(o.notes, "--overrides='")
	text, _, ended := strings.Cut(text, "'")
	if !found || !ended {
		t.Fatalf("the notes have no pod:\n%s", o.notes)
	}
	overrides := new(core.Pod)
	if err := yaml.UnmarshalStrict([]byte(text), overrides); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	// kubectl merges a container with the one that it makes, by its name, which is the pod's.
	if name := overrides.Spec.Containers[0].Name; !strings.Contains(o.notes, " run "+name+" ") ||
		len(overrides.Spec.Containers[0].Args) > 0 {
		t.Errorf("kubectl run does not take the container %q of\n%s", name, o.notes)
	}
	pods := map[string]core.PodSpec{
		"Deployment": o.deployment.Spec.Template.Spec, "Job": o.job.Spec.Template.Spec, "notes": overrides.Spec,
	}
	if o.first != nil {
		pods[tokenJob] = o.first.Spec.Template.Spec
	}
	return pods
}

// matches says that a selector finds objects with these labels.
func matches(t *testing.T, selector *meta.LabelSelector, labels map[string]string) bool {
	t.Helper()
	if len(selector.MatchExpressions) > 0 || len(selector.MatchLabels) == 0 {
		t.Fatalf("got %v, want a selector by labels", selector)
	}
	for name, value := range selector.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	return true
}

func TestEachManifestIsOneThatKubernetesTakes(t *testing.T) {
	t.Parallel()
	eachExample(t, func(t *testing.T, o objects) {
		if o.config == nil || o.deployment == nil || o.job == nil || len(o.services) == 0 || o.account == nil ||
			o.budget == nil ||
			o.network == nil {
			t.Fatalf("an object is missing: %+v", o)
		}
		if got, want := o.deployment.Spec.Template.Spec.ServiceAccountName, o.account.Name; got != want {
			t.Errorf("pods run as %q, want %q", got, want)
		}
		for name, pod := range o.pods(t) {
			if len(pod.Containers) != 1 || pod.Containers[0].Image == "" {
				t.Errorf("%s: got containers %+v", name, pod.Containers)
			}
		}
	})
}
