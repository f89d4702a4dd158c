package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// readCompose reads the compose file as Docker's own program does, which refuses names that the specification lacks.
func readCompose(t *testing.T) *types.Project {
	t.Helper()
	folder, err := filepath.Abs("../../deploy/containers")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "compose.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: folder, ConfigFiles: []types.ConfigFile{{Filename: path, Content: text}},
		Environment: types.Mapping{"VELOCITYD_VERSION": "1.2.3"},
	}, func(o *loader.Options) { o.SkipInclude = true })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeFileIsValidAndContainersAreUnprivileged(t *testing.T) {
	t.Parallel()
	project := readCompose(t)
	for name, s := range project.Services {
		if len(s.Environment) > 1 || s.Privileged || s.NetworkMode == "host" {
			t.Errorf("%s: got variables %v, privileged %v, network %q", name, s.Environment, s.Privileged, s.NetworkMode)
		}
		if !strings.HasPrefix(s.Image, "velocityd:") {
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") ||
			s.User != "" || s.PullPolicy != types.PullPolicyNever {
			t.Errorf("%s may do more than it needs: read-only %v, without %v, %v, user %q, pull %q", name, s.ReadOnly, s.CapDrop,
				s.SecurityOpt,
				s.User, s.PullPolicy)
		}
		for _, v := range s.Volumes {
			if isSecret := v.Target == "/run/secrets"; isSecret && !v.ReadOnly || v.Type != types.VolumeTypeVolume {
				t.Errorf("%s: got volume %+v", name, v)
			}
		}
	}
	service := project.Services["velocityd"]
	if service.HealthCheck == nil || len(service.Ports) != 1 || service.Ports[0].HostIP != "127.0.0.1" ||
		service.Ports[0].Target != 8080 {
		t.Errorf("velocityd: got ports %+v and health %+v", service.Ports, service.HealthCheck)
	}
	for step, condition := range map[string]string{
		"mariadb": types.ServiceConditionHealthy, "roles": types.ServiceConditionCompletedSuccessfully,
		"token": types.ServiceConditionCompletedSuccessfully,
	} {
		if got := service.DependsOn[step].Condition; got != condition {
			t.Errorf("velocityd waits for %s until %q, want %q", step, got, condition)
		}
	}
}

// TestEachStepIsWaitedForByItsEnd: `docker compose up --wait` takes a container that has ended for a failure, unless
// some service waits for its successful end.
func TestEachStepIsWaitedForByItsEnd(t *testing.T) {
	t.Parallel()
	project := readCompose(t)
	ends := map[string]bool{}
	for _, s := range project.Services {
		for step, how := range s.DependsOn {
			ends[step] = ends[step] || how.Condition == types.ServiceConditionCompletedSuccessfully
		}
	}
	for name, s := range project.Services {
		if goesOn := s.Restart == types.RestartPolicyUnlessStopped; goesOn == ends[name] {
			t.Errorf("%s is restarted: %v; another service waits for its end: %v", name, goesOn, ends[name])
		}
	}
}
