package token

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/files"
	"velocityd/service/access"
)

// podAccount is the folder of the credentials with which a pod asks the API of Kubernetes.
const podAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// clusterSecret is a Secret in the namespace of the pod that the program runs in. Its key token is the one that
// matters. It has to be there: the right to make one cannot be bound to a name.
type clusterSecret struct {
	url, bearer string
	http        *http.Client
}

// openClusterSecret returns the Secret of a name. Its errors are shell.UsageErrors. It asks nothing.
func openClusterSecret(lookupEnv func(string) (string, bool), account, name string) (*clusterSecret, error) {
	host, _ := lookupEnv("KUBERNETES_SERVICE_HOST")
	port, _ := lookupEnv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, shell.Usagef(
			"--out-secret works in a pod of Kubernetes alone: there is no KUBERNETES_SERVICE_HOST and _PORT")
	}
	bearer, err := files.ReadSecret(filepath.Join(account, "token"), files.ShortLimit)
	namespace, errNamespace := files.Read(filepath.Join(account, "namespace"), files.ShortLimit)
	roots, errRoots := ask.ReadRoots(filepath.Join(account, "ca.crt"))
	if err := cmp.Or(err, errNamespace, errRoots); err != nil {
		return nil, shell.Usagef("--out-secret: the account of the pod: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	at := url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}
	return &clusterSecret{
		url:    at.JoinPath("api/v1/namespaces", strings.TrimSpace(string(namespace)), "secrets", name).String(),
		bearer: strings.TrimSpace(string(bearer)), http: &http.Client{Transport: transport, Timeout: time.Minute},
	}, nil
}

// secretObject is as much of a Secret as is needed.
type secretObject struct {
	Metadata struct {
		Version string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string][]byte `json:"data"`
}

// keep writes a token into the Secret, unless it holds one, and returns the one that it holds then. The Secret comes
// before the database: a run that ends in between is made good by the next one, and leaves no live token that nothing
// holds.
func (s *clusterSecret) keep(ctx context.Context, token access.Token) (access.Token, error) {
	now, err := s.ask(ctx, http.MethodGet, nil)
	if err != nil {
		return token, err
	}
	if text := strings.TrimSpace(string(now.Data["token"])); text != "" {
		held, ok := access.ParseToken(text)
		if !ok {
			return token, fmt.Errorf("%s: its key token holds something else than a token of velocityd", s.url)
		}
		return held, nil
	}
	// With the version a second run at the same time is refused.
	now.Data = map[string][]byte{"token": []byte(token.Reveal())}
	_, err = s.ask(ctx, http.MethodPatch, now)
	return token, err
}

// ask sends a request. Its errors repeat nothing of the Secret.
func (s *clusterSecret) ask(ctx context.Context, method string, change any) (answer secretObject, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return answer, fmt.Errorf("write the Secret: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("ask the API of Kubernetes: %w", err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + s.bearer}, "Content-Type": {"application/merge-patch+json"}}
	response, err := s.http.Do(request)
	if err != nil {
		return answer, fmt.Errorf("ask the API of Kubernetes: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the API of Kubernetes answers %s to %s %s", response.Status, method, s.url)
	}
	if json.NewDecoder(io.LimitReader(response.Body, files.LongLimit)).Decode(&answer) != nil {
		return answer, fmt.Errorf("read the Secret %s: its form is unknown", s.url)
	}
	return answer, nil
}
