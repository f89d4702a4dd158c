//go:build packages

package containers_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"velocityd/db/localdb"
	"velocityd/tools/handlerstest"
)

// manifest is a rendered object, as far as it is run here. The test of tools/chart holds all of it against the types of
// Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct{ Spec pod }
	}
}

type pod struct {
	Containers []struct {
		Args         []string
		Env          []struct{ Name, Value string }
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
	}
	Volumes                       []volume
	TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
}

type probe struct {
	HTTPGet struct{ Path, Scheme string } `yaml:"httpGet"`
}

type volume struct {
	Name      string
	ConfigMap *struct{ Name string } `yaml:"configMap"`
	Secret    *secretVolume
}

type secretVolume struct {
	SecretName string `yaml:"secretName"`
	Items      []struct{ Key, Path string }
}

// tokenJob is the place of the Job of the first token among manifests by kind.
const tokenJob = "Job of the first token"

// cluster has the objects that a chart finds: Secrets and ConfigMaps with their texts, by name and key.
type cluster map[string]map[string]string

// renderChart renders the chart with the values of an example, by name and kind.
func renderChart(t *testing.T, example string) map[string]manifest {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built(t, "chart"), "render", "../helm/velocityd", example)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	made := map[string]manifest{}
	for decoder := yaml.NewDecoder(strings.NewReader(string(out))); ; {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return made
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == "Job" && strings.HasSuffix(m.Metadata.Name, "-token") {
			m.Kind = tokenJob
		}
		made[m.Kind] = m
	}
}

// container returns a pod as a container of the image, with its volumes as the kubelet mounts them.
func (p pod) container(t *testing.T, i image, c cluster) container {
	t.Helper()
	folders := map[string]string{}
	for _, v := range p.Volumes {
		folders[v.Name] = c.mount(t, v)
	}
	var mounts []mount
	for _, m := range p.Containers[0].VolumeMounts {
		mounts = append(mounts, mount{folders[m.Name], m.MountPath, !m.ReadOnly})
	}
	made := i.container(t, mounts...)
	for _, variable := range p.Containers[0].Env {
		made.env = append(made.env, variable.Name+"="+variable.Value)
	}
	return made
}

// mount makes the folder of a volume as the kubelet does with fsGroup 65532: all users may write the folder itself,
// which has the sticky bit, and each file is a link through ..data into a folder of root.
func (c cluster) mount(t *testing.T, v volume) string {
	t.Helper()
	const group = 65532
	folder := filepath.Join(t.TempDir(), v.Name)
	texts, mode := map[string]string{}, os.FileMode(0o644)
	switch {
	case v.ConfigMap != nil:
		texts = c[v.ConfigMap.Name]
	case v.Secret != nil:
		texts, mode = c[v.Secret.SecretName], 0o440
		if len(v.Secret.Items) > 0 {
			all := texts
			texts = map[string]string{}
			for _, item := range v.Secret.Items {
				if texts[item.Path] = all[item.Key]; all[item.Key] == "" {
					t.Fatalf("Secret %s has no key %s", v.Secret.SecretName, item.Key)
				}
			}
		}
	}
	if texts == nil {
		t.Fatalf("there is no Secret or ConfigMap for the volume %s", v.Name)
	}
	data := filepath.Join(folder, "..2026_11_26")
	link := filepath.Join(folder, "..data")
	err := errors.Join(os.Mkdir(folder, 0o700), os.Mkdir(data, 0o755), os.Symlink("..2026_11_26", link)) //nolint:gosec // above
	for name, text := range texts {
		file := filepath.Join(data, name)
		err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600), os.Chown(file, 0, group), os.Chmod(file, mode),
			os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
	}
	err = errors.Join(err, os.Chown(folder, 0, group), os.Chmod(folder, 0o777|os.ModeSetgid|os.ModeSticky))
	if v.ConfigMap == nil && v.Secret == nil { // an emptyDir has no sticky bit
		err = errors.Join(err, os.RemoveAll(data), os.Remove(link), os.Chmod(folder, 0o777|os.ModeSetgid))
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// release is where examples of the chart run.
type release struct {
	image   image
	cluster cluster
	client  *http.Client // believes the certificate of the Secret
	token   string
	// api is the one of the cluster.
	api        *api
	apiAddress string
}

// TestTheChartsExamplesServe runs the Job and the Deployment of each example, with the rendered file of settings.
func TestTheChartsExamplesServe(t *testing.T) {
	t.Parallel()
	alone(t)
	authority := handlerstest.NewAuthority(t)
	served, database := authority.Issue(t, "velocityd.default.svc"),
		handlerstest.NewMount(t, authority.Issue(t, "mariadb"))
	d := startDatabase(t, localdb.MariaDB1011, "--ssl-cert="+database.Cert(), "--ssl-key="+database.Key())
	r := release{image: unpackImage(t), client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}}
	r.token = d.prepare(t, r.image, "check,report,metrics")
	dsn, owner := d.read(t, "service/velocity-dsn"), d.read(t, "owner/velocity-dsn")
	r.cluster = cluster{
		"velocityd-database": {"dsn": dsn, "owner-dsn": owner, "service": dsn},
		"velocityd-owner":    {"owner-dsn": owner},
		"velocityd-tokens":   {"dsn": owner},
		"velocityd-tls": {
			"tls.crt": string(served.Cert), "tls.key": string(served.Key),
			"ca.crt": string(authority.PEM),
		},
		"database-ca":    {"ca.pem": string(authority.PEM)},
		"velocityd-keys": {"1": strings.Repeat("0123456789abcdef", 4) + "\n"},
	}
	r.startAPI(t, authority)
	examples, err := filepath.Glob("../helm/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for _, example := range examples {
		t.Log(example)
		r.serve(t, renderChart(t, example))
	}
	r.follow(t, "../helm/velocityd/templates/NOTES.txt")
}

// follow carries out the commands of the notes for the schema's owner. Their pod differs from the Job's in its name
// alone.
func (r release) follow(t *testing.T, notes string) {
	t.Helper()
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ +owner ([a-z][^>\n]*)`).FindAllStringSubmatch(string(text), -1)
	if len(lines) < 2 {
		t.Fatalf("the notes have %d commands for the owner", len(lines))
	}
	job := renderChart(t, "../helm/examples/minimal.yaml")["Job"].Spec.Template.Spec
	for _, line := range lines {
		job.container(t, r.image, r.cluster).must(t, slices.Concat(r.image.Config.Entrypoint, shellWords(line[1]))...)
	}
}

// serve migrates, starts the service, waits for its probes, asks, and stops it.
func (r release) serve(t *testing.T, made map[string]manifest) {
	t.Helper()
	r.cluster["velocityd"] = made["ConfigMap"].Data
	job, served := made["Job"].Spec.Template.Spec, made["Deployment"].Spec.Template.Spec
	entrypoint := r.image.Config.Entrypoint
	job.container(t, r.image, r.cluster).must(t, slices.Concat(entrypoint, job.Containers[0].Args)...)
	token := r.token
	if made[tokenJob].Kind != "" {
		token = r.makeToken(t, made)
	}
	server := served.Containers[0]
	p := served.container(t, r.image, r.cluster).start(t, slices.Concat(entrypoint, server.Args)...)
	base := strings.ToLower(server.ReadinessProbe.HTTPGet.Scheme) + "://127.0.0.1:8080"
	for _, probe := range []probe{server.LivenessProbe, server.ReadinessProbe} {
		p.eventually(t, "200 from "+probe.HTTPGet.Path, func() bool {
			status, _ := ask(t, r.client, base+probe.HTTPGet.Path, "10.1.2.3:8080", "", "")
			return status == http.StatusOK
		})
	}
	if status, body := ask(t, r.client, base+"/v1/check", "velocityd.default.svc:8080", token,
		firstCheck); status != http.StatusOK {
		t.Errorf("a check: got %d %s", status, body)
	}
	if made["ConfigMap"].Data["gates.yaml"] != "" {
		status, body := ask(t, r.client, base+"/gate/login", "velocityd.example.org", r.token, "username=bob")
		if status != http.StatusNoContent {
			t.Errorf("a gate, by the ingress' name: got %d %s", status, body)
		}
	}
	var settings struct { // of further ports
		AdminListen string `yaml:"admin-listen"`
		GRPCListen  string `yaml:"grpc-listen"`
	}
	if err := yaml.Unmarshal([]byte(made["ConfigMap"].Data["velocityd.yaml"]), &settings); err != nil {
		t.Fatal(err)
	}
	if settings.GRPCListen != "" && !isOpen(t, settings.GRPCListen) {
		t.Errorf("nothing listens at %s", settings.GRPCListen)
	}
	if settings.AdminListen != "" {
		base = "http://127.0.0.1" + settings.AdminListen
	}
	metrics := base + "/metrics"
	status, body := ask(t, r.client, metrics, "", r.token, "")
	if status != http.StatusOK || !strings.Contains(body, "velocityd_build_info") {
		t.Errorf("metrics: got %d", status)
	}
	p.stop(t, time.Duration(served.TerminationGracePeriodSeconds)*time.Second)
}
