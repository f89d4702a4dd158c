//go:build !no_console

package server

import (
	"net/http"
	"strings"

	"velocityd/console"
	"velocityd/handlers"
)

// ConsolePath is where the console begins.
const ConsolePath = console.Path

// mountConsole has api serve the console, if there is to be one. A program that was built with the tag no_console has
// none.
func (s *Instance) mountConsole(api *handlers.API) error {
	o := s.options.Console
	if !o.IsOn {
		return nil
	}
	pages, err := console.New(console.Options{
		API: api, Limiter: s.limiter, Outcomes: WithPseudonyms(s.store, s.keys), LoginZone: o.LoginZone, Key: o.Key,
		Proxies: s.options.HTTP.Auth.TrustedProxies, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	api.Mount(console.Path, pages)
	api.Mount(strings.TrimSuffix(console.Path, "/"), http.RedirectHandler(console.Path, http.StatusPermanentRedirect))
	return nil
}
