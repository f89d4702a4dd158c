//go:build !no_console

package daemon

import (
	"net/http"
	"strings"

	"velocityd/console"
)

// ConsolePath is where the console begins.
const ConsolePath = console.Path

// withConsole returns api with the console below its path, if there is to be one. A program that was built with the tag
// no_console has none.
func (s *Instance) withConsole(api http.Handler) (http.Handler, error) {
	o := s.options.Console
	if !o.IsOn {
		return api, nil
	}
	pages, err := console.New(console.Options{
		API: api, Limiter: s.metrics.Checks(s.limiter), Outcomes: HidingStore{s.store, s.keys}, LoginZone: o.LoginZone, Key: o.Key,
		Proxies: s.options.HTTP.Auth.TrustedProxies, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, console.Path):
			pages.ServeHTTP(w, r)
		case r.URL.Path+"/" == console.Path:
			http.Redirect(w, r, console.Path, http.StatusPermanentRedirect)
		default:
			api.ServeHTTP(w, r)
		}
	}), nil
}
