package handlers

import (
	"context"
	"net/http/pprof" // also registers with http.DefaultServeMux, which is not served
	named "runtime/pprof"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/service/access"
)

// pathProfiles is the path of the profiles of the process, as Go's tools expect them.
const pathProfiles = "/debug/pprof/*"

// routeProfiles routes GET alone: HEAD would take a profile and not send it.
func (s *server) routeProfiles(e *echo.Echo) {
	s.route(e, "GET", pathProfiles, everywhere(access.ScopeAdmin), s.profile)
}

// profile answers GET /debug/pprof/ with a list of the profiles, and below it with one
// of them. It does not show the command line, which may hold the database's password.
func (s *server) profile(x *exchange) error {
	ctx, cancel := context.WithCancel(x.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.Running, cancel)()
	r, w := x.Request().WithContext(ctx), x.Response()
	switch name := x.Param("*"); {
	case name == "profile":
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case name == "symbol":
		pprof.Symbol(w, r)
	case name == "", named.Lookup(name) != nil:
		pprof.Index(w, r)
	default:
		return api.ErrNoRoute
	}
	return nil
}
