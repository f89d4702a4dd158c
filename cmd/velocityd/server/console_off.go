//go:build no_console

package server

import "velocityd/handlers"

// ConsolePath is empty: this program has no console.
const ConsolePath = ""

// mountConsole mounts nothing: this program has no console.
func (s *Instance) mountConsole(*handlers.API) error { return nil }
