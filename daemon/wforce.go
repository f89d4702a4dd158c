package daemon

import (
	"velocityd/handlers"
	"velocityd/wforce"
)

// mountWforce has api serve the door for mail servers.
func (s *Instance) mountWforce(api *handlers.Interface) {
	api.Mount(wforce.Path, wforce.New(wforce.Options{API: api, Attempts: Hiding(s.store, s.keys)}))
}
