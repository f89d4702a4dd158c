//go:build no_console

package daemon

import "net/http"

// ConsolePath is empty: this program has no console.
const ConsolePath = ""

// withConsole returns api as it is: this program has no console.
func (s *Instance) withConsole(api http.Handler) (http.Handler, error) { return api, nil }
