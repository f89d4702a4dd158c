//go:build doors

package doors_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
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

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// extAuthz is the part of envoy.yaml that decides about a request, under Envoy's names.
type extAuthz struct {
	FailureModeAllow bool `yaml:"failure_mode_allow"`
	WithRequestBody  struct {
		MaxRequestBytes int  `yaml:"max_request_bytes"`
		PackAsBytes     bool `yaml:"pack_as_bytes"`
	} `yaml:"with_request_body"`
	EncodeRawHeaders bool `yaml:"encode_raw_headers"`
	GRPCService      struct {
		Timeout         time.Duration
		InitialMetadata []struct{ Key, Value string } `yaml:"initial_metadata"`
	} `yaml:"grpc_service"`
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
	PerFilter map[string]struct {
		Disabled      bool
		CheckSettings struct {
			ContextExtensions map[string]string `yaml:"context_extensions"`
		} `yaml:"check_settings"`
	} `yaml:"typed_per_filter_config"`
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

// envoy does as Envoy's ext_authz filter does, because no Envoy can be had here. It follows Envoy's
// source/extensions/filters/common/ext_authz (ext_authz_http_impl.cc, ext_authz_grpc_impl.cc, check_request_utils.cc),
// and the HTTP connection manager for the headers that use_remote_address makes.
type envoy struct {
	filter      extAuthz
	routes      []route
	application http.Handler
	ask         auth.AuthorizationClient // nil: it asks over HTTP
}

// ServeHTTP asks the gate about a request, and lets it pass at status 200 alone.
func (e envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.ownHeaders(r)
	i := slices.IndexFunc(e.routes, func(to route) bool { return to.takes(r.Method, r.URL.Path) })
	if i < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	settings := e.routes[i].PerFilter["envoy.filters.http.ext_authz"]
	if settings.Disabled {
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
	check := func() (reply, error) { return e.check(r, body) }
	if e.ask != nil {
		check = func() (reply, error) { return e.checkOverGRPC(r, body, settings.CheckSettings.ContextExtensions) }
	}
	answer, err := check()
	switch {
	case err != nil || answer.status >= http.StatusInternalServerError:
		if !e.filter.FailureModeAllow {
			w.WriteHeader(http.StatusServiceUnavailable) // status_on_error
			return
		}
	case answer.status != http.StatusOK:
		if e.ask != nil {
			maps.Copy(w.Header(), answer.header)
		}
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

// ownHeaders does as use_remote_address: the client's address is appended to X-Forwarded-For, and the id of the request
// is Envoy's, because the client is not an internal one.
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

// checkOverGRPC sends the message of the filter, with each field of the header and the body as bytes. What the answer
// says of the request's header is done to it.
func (e envoy) checkOverGRPC(r *http.Request, body []byte, extensions map[string]string) (reply, error) {
	service := e.filter.GRPCService
	ctx, cancel := context.WithTimeout(r.Context(), service.Timeout)
	defer cancel()
	for _, f := range service.InitialMetadata {
		ctx = metadata.AppendToOutgoingContext(ctx, f.Key, f.Value)
	}
	sent := &auth.AttributeContext_HttpRequest{
		Id: r.Header.Get("X-Request-Id"), Method: r.Method, Path: r.RequestURI, Host: r.Host, RawBody: body,
		HeaderMap: &core.HeaderMap{},
	}
	for name, values := range r.Header {
		for _, value := range values {
			sent.HeaderMap.Headers = append(sent.HeaderMap.Headers,
				&core.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)})
		}
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	socket := &core.SocketAddress{Address: address, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 1}}
	answer, err := e.ask.Check(ctx, &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Source: &auth.AttributeContext_Peer{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: socket}},
		},
		Request: &auth.AttributeContext_Request{Http: sent}, ContextExtensions: extensions,
	}})
	if err != nil {
		return reply{}, err
	}
	if codes.Code(answer.GetStatus().GetCode()) != codes.OK {
		denied := answer.GetDeniedResponse()
		told := reply{int(denied.GetStatus().GetCode()), http.Header{}, denied.GetBody()}
		for _, f := range denied.GetHeaders() {
			told.header.Set(f.GetHeader().GetKey(), f.GetHeader().GetValue())
		}
		return told, nil
	}
	for _, f := range answer.GetOkResponse().GetHeaders() {
		r.Header.Set(f.GetHeader().GetKey(), f.GetHeader().GetValue())
	}
	for _, name := range answer.GetOkResponse().GetHeadersToRemove() {
		r.Header.Del(name)
	}
	return reply{status: http.StatusOK}, nil
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
	return serveEnvoy(t, w, newEnvoy(t, w, "envoy/envoy.yaml", replace...))
}

func newEnvoy(t *testing.T, w *world, name string, replace ...string) envoy {
	t.Helper()
	text, err := os.ReadFile(w.configure(t, name, "", replace...))
	if err != nil {
		t.Fatal(err)
	}
	e, err := envoyOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func serveEnvoy(t *testing.T, w *world, e envoy) string {
	t.Helper()
	e.application = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.app.address})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return server.URL
}

func startEnvoyOverGRPC(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	e := newEnvoy(t, w, "envoy/grpc.yaml", replace...)
	if !e.filter.EncodeRawHeaders || !e.filter.WithRequestBody.PackAsBytes {
		t.Fatalf("the messages of this test are others than those of the filter %+v", e.filter)
	}
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	e.ask = auth.NewAuthorizationClient(conn)
	return serveEnvoy(t, w, e)
}

// TestEnvoyHTTPRequestsGuardUsersOfLoginForm makes the requests of Envoy by its source.
func TestEnvoyHTTPRequestsGuardUsersOfLoginForm(t *testing.T) {
	t.Parallel()
	door{start: startEnvoy, login: form, away: 503, slow: 503, busy: 503, noToken: 400, opens: true}.prove(t)
}

// TestEnvoyGRPCRequestsGuardUsersOfLoginForm makes the messages of Envoy by its source.
func TestEnvoyGRPCRequestsGuardUsersOfLoginForm(t *testing.T) {
	t.Parallel()
	door{
		start: startEnvoyOverGRPC, login: form, away: 503, slow: 503, busy: 503, noToken: 400,
		stranger: `"code":"unauthenticated"`, opens: true,
	}.prove(t)
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
