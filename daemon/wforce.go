package daemon

import (
	"net/http"
	"strings"

	"velocityd/wforce"
)

// withWforce returns api with the door for mail servers below its path.
func (s *Instance) withWforce(api http.Handler) http.Handler {
	door := wforce.New(wforce.Options{API: api, Attempts: HidingStore{s.store, s.keys}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, wforce.Path) {
			door.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
