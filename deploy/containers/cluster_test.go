//go:build packages

package containers_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/tools/handlerstest"
)

// api answers for Secrets of the namespace default, as the API of Kubernetes does to an account that may get and patch
// them. None is made by asking.
type api struct {
	mu      sync.Mutex
	secrets map[string]map[string][]byte // by name and key
	patches int
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	folder, name := path.Split(r.URL.Path)
	data, isThere := a.secrets[name]
	switch {
	case r.Header.Get("Authorization") != "Bearer account" || folder != "/api/v1/namespaces/default/secrets/":
		w.WriteHeader(http.StatusForbidden)
		return
	case !isThere:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPatch:
		var change struct{ Data map[string][]byte }
		text, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(text, &change) != nil ||
			r.Header.Get("Content-Type") != "application/merge-patch+json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a.patches++
		maps.Copy(data, change.Data)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"resourceVersion": "1"}, "data": data})
}

// startAPI starts the API, and puts an account's files into the cluster, as Secret account.
func (r *release) startAPI(t *testing.T, authority *handlerstest.Authority) {
	t.Helper()
	r.api = &api{secrets: map[string]map[string][]byte{}}
	server := httptest.NewUnstartedServer(r.api)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "localhost").Loaded(t)},
		MinVersion:   tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	r.apiAddress = server.Listener.Addr().String()
	r.cluster["account"] = map[string]string{"token": "account", "namespace": "default", "ca.crt": string(authority.PEM)}
}

// makeToken runs the Job of the first token twice, and returns the token, which neither run prints.
func (r release) makeToken(t *testing.T, made map[string]manifest) string {
	t.Helper()
	name := made["Secret"].Metadata.Name
	if r.api.secrets[name] == nil {
		r.api.secrets[name] = map[string][]byte{}
	}
	job := made[tokenJob].Spec.Template.Spec
	_, port, err := net.SplitHostPort(r.apiAddress)
	if err != nil {
		t.Fatal(err)
	}
	before, token := r.api.patches, ""
	for range 2 {
		c := job.container(t, r.image, r.cluster)
		account := volume{Name: "account"}
		account.Secret = &secretVolume{SecretName: "account"}
		c.mounts = append(
			c.mounts, mount{r.cluster.mount(t, account), "/var/run/secrets/kubernetes.io/serviceaccount", false})
		c.env = append(c.env, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT="+port)
		printed := c.must(t, slices.Concat(r.image.Config.Entrypoint, job.Containers[0].Args)...)
		token = string(r.api.secrets[name]["token"])
		if token == "" || strings.Contains(printed, token) {
			t.Errorf("the Secret %s has %d bytes, and the Job printed\n%s", name, len(token), printed)
		}
	}
	if r.api.patches > before+1 {
		t.Errorf("two runs filled the Secret %d times", r.api.patches-before)
	}
	return token
}

// isOpen says that a port of the service takes connections.
func isOpen(t *testing.T, address string) bool {
	t.Helper()
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", "127.0.0.1"+address)
	if err == nil {
		_ = connection.Close()
	}
	return err == nil
}
