//go:build !no_grpc

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

func TestGRPCOverTLSAnswersEnvoyUntilServiceStops(t *testing.T) {
	t.Parallel()
	answersEnvoy(t, enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour}))
}

// grpcAddress returns the address for Envoy of an instance whose log is JSON.
func (i *instanceUnderTest) grpcAddress() string {
	_, rest, _ := strings.Cut(i.stderr.String(), `"listening for Envoy","address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// limits returns a client of the Rate Limit Service of an instance without TLS.
func (i *instanceUnderTest) limits(t *testing.T) ratelimit.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(i.grpcAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	enginetest.AtEnd(t, func() { _ = conn.Close() })
	return ratelimit.NewRateLimitServiceClient(conn)
}

func answersEnvoy(t *testing.T, d *enginetest.Database) {
	t.Helper()
	authority := handlerstest.NewAuthority(t)
	files := handlerstest.NewMount(t, authority.Issue(t, "first"))
	cmd := exec.CommandContext(context.Background(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--grpc-listen",
		"127.0.0.1:0",
		"--log-format", "json", "--tls-cert", files.Cert(), "--tls-key", files.Key())
	i := spawn(t, cmd, []string{"VELOCITY_DSN=" + d.DSN})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	conn, err := grpc.NewClient(i.grpcAddress(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	health := grpc_health_v1.NewHealthClient(conn)
	if got, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v %v", got, err)
	}
	alice := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: "zone_1", Value: "alice"}}}
	for _, want := range []ratelimit.RateLimitResponse_Code{
		ratelimit.RateLimitResponse_OK,
		ratelimit.RateLimitResponse_OVER_LIMIT,
	} {
		got, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
			&ratelimit.RateLimitRequest{Domain: "login", Descriptors: []*common.RateLimitDescriptor{alice}})
		if err != nil || got.GetOverallCode() != want {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	if code := i.stop(t); code != exitSuccess {
		t.Errorf("exit code %d: %s", code, i.stderr.String())
	}
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err == nil {
		t.Error("a stopped service answers")
	}
}
