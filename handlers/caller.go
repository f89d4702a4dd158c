package handlers

import (
	"net/http"

	"velocityd/api"
	"velocityd/service/access"
)

// pathCaller is the path of showCaller.
const pathCaller = "/v1/caller"

// showCaller answers GET /v1/caller: who the service believes the caller to be.
func (s *server) showCaller(x *exchange) error {
	principal, err := s.principal(x)
	if err != nil {
		return err
	}
	who := access.Identity{IsOpen: s.Auth.IsOpen(), Principal: principal}
	if who.IsOpen {
		who.Scopes = []access.Scope{access.ScopeAdmin}
	} else {
		digest, _ := credentialOf(x)
		shown, known := s.Auth.Callers.Credential(digest)
		if !known {
			return access.ErrUnauthenticated // it has ended just now
		}
		who.ID, who.Kind, who.Caller, who.ExpiresAt = shown.ID, shown.Kind, shown.Caller(), shown.ExpiresAt
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, who)
}
