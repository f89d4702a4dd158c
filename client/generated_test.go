package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/tools/nightly"
)

// TestOapiCodegenClientAsksAndReports makes it in a copy of tools/oapi, compiles and runs it.
func TestOapiCodegenClientAsksAndReports(t *testing.T) {
	nightly.Only(t, "compiles oapi-codegen and a client that it makes")
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "oapi")
	if err := os.CopyFS(folder, os.DirFS("../tools/oapi")); err != nil {
		t.Fatal(err)
	}
	document, err := filepath.Abs("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	url := serve(t, newHandler(m))
	goIn := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = folder
		command.Env = append(command.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0")
		out, err := command.CombinedOutput()
		return string(out), err
	}
	if out, err := goIn("mod", "download"); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("oapi-codegen cannot be fetched: %v\n%s", err, out)
	}
	out, err := goIn("tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "velocity.go",
		document)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = goIn("run", ".", url)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	txns := m.Txns(service.Bucket{ZoneID: 1, Key: "alice"})
	if len(txns) != 1 || strings.TrimSpace(out) != "1" || txns[0].ID != 1 || txns[0].Outcome != service.OutcomeSuccess {
		t.Errorf("printed %q, recorded %+v", out, txns)
	}
}
