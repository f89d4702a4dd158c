//go:build doors

package doors_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// extAuthz is the part of envoy.yaml that decides about a request, under Envoy's names.
type extAuthz struct {
	FailureModeAllow bool `yaml:"failure_mode_allow"`
	WithRequestBody  struct {
		MaxRequestBytes int `yaml:"max_request_bytes"`
	} `yaml:"with_request_body"`
	AllowedHeaders headerList `yaml:"allowed_headers"`
	HTTPService    struct {
		ServerURI struct {
			URI     string
			Timeout time.Duration
		} `yaml:"server_uri"`
		PathPrefix           string `yaml:"path_prefix"`
		AuthorizationRequest struct {
			HeadersToAdd []struct{ Key, Value string } `yaml:"headers_to_add"`
		} `yaml:"authorization_request"`
		AuthorizationResponse struct {
			AllowedUpstreamHeaders headerList `yaml:"allowed_upstream_headers"`
			AllowedClientHeaders   headerList `yaml:"allowed_client_headers"`
		} `yaml:"authorization_response"`
	} `yaml:"http_service"`
}

// headerList is a list of matchers, of which envoy.yaml has exact ones only.
type headerList struct{ Patterns []struct{ Exact string } }

// route is a route of envoy.yaml, by a path and perhaps the method.
type route struct {
	Match struct {
		Path    string
		Headers []struct {
			Name        string
			StringMatch struct{ Exact string } `yaml:"string_match"`
		}
	}
	PerFilter map[string]struct{ Disabled bool } `yaml:"typed_per_filter_config"`
}

// takes reports whether Envoy takes this route for a request.
func (r route) takes(method, path string) bool {
	for _, h := range r.Match.Headers {
		if h.Name != ":method" || h.StringMatch.Exact != method {
			return false
		}
	}
	return r.Match.Path == path
}

// envoy does as Envoy's ext_authz filter with an HTTP service does, because no Envoy can be had here. It follows Envoy's
// source/extensions/filters/common/ext_authz/ext_authz_http_impl.cc, and the HTTP connection manager for the headers that
// use_remote_address makes.
type envoy struct {
	filter      extAuthz
	routes      []route
	application http.Handler
}

// ServeHTTP asks the gate about a request, and lets it pass at status 200 alone.
func (e envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.ownHeaders(r)
	i := slices.IndexFunc(e.routes, func(to route) bool { return to.takes(r.Method, r.URL.Path) })
	if i < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if e.routes[i].PerFilter["envoy.filters.http.ext_authz"].Disabled {
		e.application.ServeHTTP(w, r)
		return
	}
	limit := e.filter.WithRequestBody.MaxRequestBytes
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)))
	if err != nil || len(body) >= limit {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := e.check(r, body)
	switch {
	case err != nil || answer.status >= http.StatusInternalServerError:
		if !e.filter.FailureModeAllow {
			w.WriteHeader(http.StatusServiceUnavailable) // status_on_error
			return
		}
	case answer.status != http.StatusOK:
		for _, h := range e.filter.HTTPService.AuthorizationResponse.AllowedClientHeaders.Patterns {
			if value := answer.header.Get(h.Exact); value != "" {
				w.Header().Set(h.Exact, value)
			}
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
		return
	default:
		for _, h := range e.filter.HTTPService.AuthorizationResponse.AllowedUpstreamHeaders.Patterns {
			r.Header.Set(h.Exact, answer.header.Get(h.Exact))
		}
	}
	e.application.ServeHTTP(w, r)
}

// ownHeaders does as use_remote_address: the client's address is appended to X-Forwarded-For, and the id of the request is
// Envoy's, because the client is not an internal one.
func (envoy) ownHeaders(r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	if prior := r.Header.Get("X-Forwarded-For"); prior != "" {
		address = prior + "," + address
	}
	r.Header.Set("X-Forwarded-For", address)
	r.Header.Set("X-Request-Id", rand.Text())
}

// check sends the request of the filter: the client's method, Host and Authorization, the path and its query behind the
// prefix, the allowed headers, the body with its length, and then the headers to add, which replace others.
func (e envoy) check(r *http.Request, body []byte) (reply, error) {
	service := e.filter.HTTPService
	ctx, cancel := context.WithTimeout(r.Context(), service.ServerURI.Timeout)
	defer cancel()
	to := service.ServerURI.URI + service.PathPrefix + r.RequestURI
	asked, err := http.NewRequestWithContext(ctx, r.Method, to, bytes.NewReader(body)) //nolint:gosec // as Envoy does
	if err != nil {
		return reply{}, err
	}
	asked.Host = r.Host
	asked.Header["Authorization"] = r.Header["Authorization"]
	for _, h := range e.filter.AllowedHeaders.Patterns {
		if values := r.Header.Values(h.Exact); len(values) > 0 {
			asked.Header[http.CanonicalHeaderKey(h.Exact)] = values
		}
	}
	for _, h := range service.AuthorizationRequest.HeadersToAdd {
		asked.Header.Set(h.Key, h.Value)
	}
	response, err := http.DefaultTransport.RoundTrip(asked)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

// envoyOf finds filter and routes in envoy.yaml.
func envoyOf(text []byte) (e envoy, err error) {
	var file struct {
		StaticResources struct {
			Listeners []struct {
				FilterChains []struct {
					Filters []struct {
						TypedConfig struct {
							RouteConfig struct {
								VirtualHosts []struct{ Routes []route } `yaml:"virtual_hosts"`
							} `yaml:"route_config"`
							HTTPFilters []struct {
								Name        string
								TypedConfig yaml.Node `yaml:"typed_config"`
							} `yaml:"http_filters"`
						} `yaml:"typed_config"`
					}
				} `yaml:"filter_chains"`
			}
		} `yaml:"static_resources"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return e, err
	}
	manager := file.StaticResources.Listeners[0].FilterChains[0].Filters[0].TypedConfig
	e.routes = manager.RouteConfig.VirtualHosts[0].Routes
	for _, f := range manager.HTTPFilters {
		if strings.HasSuffix(f.Name, ".ext_authz") {
			return e, f.TypedConfig.Decode(&e.filter)
		}
	}
	return e, errors.New("envoy.yaml has no filter ext_authz")
}

func startEnvoy(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(w.configure(t, "envoy/envoy.yaml", "", replace...))
	if err != nil {
		t.Fatal(err)
	}
	e, err := envoyOf(text)
	if err != nil {
		t.Fatal(err)
	}
	to := &url.URL{Scheme: "http", Host: w.app.address}
	e.application = httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return server.URL
}

// TestEnvoysFormOfAskingGuardsUsersOfALoginForm makes the requests of Envoy by its source.
func TestEnvoysFormOfAskingGuardsUsersOfALoginForm(t *testing.T) {
	t.Parallel()
	door{start: startEnvoy, login: form, away: 503, slow: 503, busy: 503, noToken: 400, opens: true}.prove(t)
}

// TestTheConfigurationsOfEnvoyFitEnvoysMessages holds that each member is a field of Envoy's, and in its bounds.
func TestTheConfigurationsOfEnvoyFitEnvoysMessages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"envoy/envoy.yaml", "envoy/grpc.yaml"} {
		lint := exec.CommandContext(t.Context(), gateway(t, "envoy-lint"), name)
		if out, err := lint.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
