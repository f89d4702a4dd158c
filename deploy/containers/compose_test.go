//go:build packages

package containers_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"velocityd/db/localdb"
)

// composed is a service of the compose file, as far as it is run here. The test of tools/image reads all of the file.
type composed struct {
	Image               string
	Entrypoint, Command []string
	Environment         map[string]string
	Volumes             []string
	Healthcheck         struct{ Test []string }
	StopGracePeriod     time.Duration                         `yaml:"stop_grace_period"`
	DependsOn           map[string]struct{ Condition string } `yaml:"depends_on"`
}

func readCompose(t *testing.T) map[string]composed {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]composed }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// container returns the service as a container of the image.
func (s composed) container(t *testing.T, i image, d database) container {
	t.Helper()
	var mounts []mount
	for _, volume := range s.Volumes {
		part := strings.Split(volume, ":")
		mounts = append(mounts, d.volume(part[0], part[1], len(part) == 2))
	}
	c := i.container(t, mounts...)
	for name, value := range s.Environment {
		c.env = append(c.env, name+"="+value)
	}
	return c
}

// order returns the names of services behind those that they wait for.
func order(services map[string]composed) (names []string) {
	var add func(name string)
	add = func(name string) {
		if slices.Contains(names, name) {
			return
		}
		for _, before := range slices.Sorted(maps.Keys(services[name].DependsOn)) {
			add(before)
		}
		names = append(names, name)
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		add(name)
	}
	return names
}

// TestComposeFileComesUpAndPageIsRight carries out the services of the compose file in their order, twice, as two
// `up` do, and then each `docker compose run` of the page. MariaDB's image is stood for by its server.
func TestComposeFileComesUpAndPageIsRight(t *testing.T) {
	t.Parallel()
	alone(t)
	services := readCompose(t)
	d, i := startDatabase(t, localdb.MariaDB118), unpackImage(t)
	for range 2 {
		for _, name := range order(services) {
			if s := services[name]; strings.HasPrefix(s.Image, "velocityd:") && name != "velocityd" {
				s.container(t, i, d).must(t, append(i.Config.Entrypoint, s.Command...)...)
			}
		}
	}
	service := services["velocityd"]
	c := service.container(t, i, d)
	p := c.start(t, append(i.Config.Entrypoint, i.Config.Cmd...)...)
	p.eventually(t, "the service is healthy", func() bool {
		_, code := c.run(t, service.Healthcheck.Test[1:]...)
		return code == 0
	})
	page, err := os.ReadFile("../../docs/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^docker compose run --rm (\S+) (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(lines) < 3 {
		t.Fatalf("the page has %d commands to run, want 3 at least", len(lines))
	}
	for _, line := range lines {
		printed := services[line[1]].container(t, i, d).must(t, append(i.Config.Entrypoint, shellWords(line[2])...)...)
		if strings.HasPrefix(line[2], "check ") && !strings.Contains(printed, "allowed") {
			t.Errorf("%s printed\n%s", line[0], printed)
		}
	}
	caller := services["token"].container(t, i, d)
	if printed, code := caller.run(t, "velocityd", "check", "1", "alice", "--url", "http://velocityd:8080"); code != 1 {
		t.Errorf("a check without a token: got %d, want 1\n%s", code, printed)
	}
	p.stop(t, service.StopGracePeriod)
}

// shellWords splits a line of the page, where a word in single quotes may have spaces.
func shellWords(line string) (words []string) {
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	return words
}

// TestSecretsAreMadeOnceForOneReaderEach looks at the files of secrets.sh.
func TestSecretsAreMadeOnceForOneReaderEach(t *testing.T) {
	t.Parallel()
	alone(t)
	d := newSecrets(t)
	before := map[string]string{}
	for file, mode := range map[string]os.FileMode{
		"init/root-password": 0o400, "init/accounts.sql": 0o400, "owner/root-dsn": 0o440, "owner/velocity-dsn": 0o440,
		"service/velocity-dsn": 0o440,
	} {
		info, err := os.Stat(filepath.Join(d.folder, file))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: got %v (%v), want mode %v", file, info, err, mode)
		}
		before[file] = d.read(t, file)
	}
	if printed := d.makeSecrets(t); !strings.Contains(printed, "there already") {
		t.Errorf("the second time: got %s", printed)
	}
	for file, text := range before {
		if d.read(t, file) != text {
			t.Errorf("%s was made anew", file)
		}
	}
}
