// Command traefik-forward serves as Traefik would from a file of dynamic configuration, by Traefik's own code: the
// reader of the file, the rules of routers, the handling of X-Forwarded headers at an entry point, and the middleware
// ForwardAuth. Traefik itself can not be built from its module, which lacks the files of its dashboard. It is for tests
// only: it knows routers with middlewares that are ForwardAuth, and services with one server.
//
//	traefik-forward 127.0.0.1:8000 velocityd.yml
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/auth"
	"github.com/traefik/traefik/v3/pkg/middlewares/forwardedheaders"
	muxer "github.com/traefik/traefik/v3/pkg/muxer/http"
	"github.com/traefik/traefik/v3/pkg/provider/file"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: traefik-forward ADDRESS FILE")
		os.Exit(2)
	}
	if err := serve(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "traefik-forward:", err)
		os.Exit(1)
	}
}

// serve serves the configuration of the file at an address, until the program is ended.
func serve(ctx context.Context, address, name string) error {
	configuration, err := new(file.Provider).DecodeConfiguration(name)
	if err != nil {
		return err
	}
	parser, err := muxer.NewSyntaxParser()
	if err != nil {
		return fmt.Errorf("make the parser of rules: %w", err)
	}
	routes := muxer.NewMuxer(parser, nil)
	for name, router := range configuration.HTTP.Routers {
		handler, err := handlerOf(ctx, configuration.HTTP, router)
		if err != nil {
			return fmt.Errorf("router %s: %w", name, err)
		}
		priority := cmp.Or(router.Priority, muxer.GetRulePriority(router.Rule)) // as Traefik's pkg/server/router does
		if err := routes.AddRoute(router.Rule, router.RuleSyntax, priority, "file", handler); err != nil {
			return fmt.Errorf("router %s: %w", name, err)
		}
	}
	entry, err := forwardedheaders.NewXForwarded(false, nil, nil, false, routes)
	if err != nil {
		return fmt.Errorf("make the entry point: %w", err)
	}
	return http.ListenAndServe(address, entry)
}

// handlerOf returns a router's middlewares in front of its service.
func handlerOf(
	ctx context.Context, all *dynamic.HTTPConfiguration, router *dynamic.Router,
) (handler http.Handler, err error) {
	service := all.Services[router.Service]
	if service == nil || service.LoadBalancer == nil || len(service.LoadBalancer.Servers) != 1 {
		return nil, fmt.Errorf("service %q is not one of one server", router.Service)
	}
	to, err := url.Parse(service.LoadBalancer.Servers[0].URL)
	if err != nil {
		return nil, err
	}
	handler = httputil.NewSingleHostReverseProxy(to)
	for i := len(router.Middlewares) - 1; i >= 0; i-- {
		middleware := all.Middlewares[router.Middlewares[i]]
		if middleware == nil || middleware.ForwardAuth == nil {
			return nil, fmt.Errorf("middleware %q is not a ForwardAuth", router.Middlewares[i])
		}
		if handler, err = auth.NewForward(ctx, handler, *middleware.ForwardAuth, router.Middlewares[i]); err != nil {
			return nil, err
		}
	}
	return handler, nil
}
