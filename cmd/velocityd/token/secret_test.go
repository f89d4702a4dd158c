package token

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/service/access"
)

// cluster answers for the one Secret of a cluster, as the API of Kubernetes does.
type cluster struct {
	t       *testing.T
	secret  secretObject
	patches int
	// during is called before a patch is made.
	during func()
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer account" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path != "/api/v1/namespaces/login/secrets/first" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPatch {
		var change secretObject
		if err := json.NewDecoder(r.Body).Decode(&change); err != nil ||
			r.Header.Get("Content-Type") != "application/merge-patch+json" {
			c.t.Errorf("a patch: %v, %v", err, r.Header)
		}
		if c.during != nil {
			c.during()
		}
		if change.Metadata.Version != c.secret.Metadata.Version {
			w.WriteHeader(http.StatusConflict)
			return
		}
		c.patches++
		c.secret.Data, c.secret.Metadata.Version = maps.Clone(change.Data), "2"
	}
	_ = json.NewEncoder(w).Encode(c.secret)
}

// pod returns the look-up of the environment, and the folder of the account in a pod of the cluster.
func (c *cluster) pod(t *testing.T) (lookupEnv func(string) (string, bool), account string) {
	t.Helper()
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"token": "account\n", "namespace": "login",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"KUBERNETES_SERVICE_HOST": at.Hostname(), "KUBERNETES_SERVICE_PORT": at.Port()}
	return func(name string) (string, bool) { value, ok := env[name]; return value, ok }, folder
}

func TestSecretOfClusterKeepsItsFirstToken(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t}
	c.secret.Metadata.Version = "1"
	lookupEnv, folder := c.pod(t)
	secret, err := openClusterSecret(lookupEnv, folder, "first")
	if err != nil {
		t.Fatal(err)
	}
	first := access.NewToken()
	for range 2 {
		held, err := secret.keep(t.Context(), first)
		if err != nil || held != first || string(c.secret.Data["token"]) != first.Reveal() || c.patches != 1 {
			t.Errorf("%v, %d patches", err, c.patches)
		}
	}
	if held, err := secret.keep(t.Context(), access.NewToken()); err != nil || held != first || c.patches != 1 {
		t.Errorf("a second token: %v, %d patches", err, c.patches)
	}
	c.secret.Data["token"] = []byte("vel_hush")
	if _, err := secret.keep(t.Context(), first); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("what is no token: %v", err)
	}
	c.secret.Data, c.during = nil, func() { c.secret.Metadata.Version = "3" }
	if _, err := secret.keep(t.Context(), first); err == nil || !strings.Contains(err.Error(), "409") ||
		strings.Contains(err.Error(), first.Reveal()) {
		t.Errorf("another run in between: %v", err)
	}
	if other, err := openClusterSecret(lookupEnv, folder, "second"); err != nil {
		t.Error(err)
	} else if _, err := other.keep(t.Context(), first); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("another Secret: %v", err)
	}
}
