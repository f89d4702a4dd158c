package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
)

// The paths that watchers ask every few seconds; their log lines are for
// debugging only.
const (
	pathLive  = "/livez"
	pathReady = "/readyz"
)

const readyTimeout = 2 * time.Second

type health struct {
	Status string `json:"status"`
}

// live answers GET /livez: the process runs. It asks nobody.
func (s *server) live(x *exchange) error {
	return x.respondJSON(http.StatusOK, api.MediaJSON, health{Status: "ok"})
}

// answerReady answers GET /readyz: checks can be decided now.
func (s *server) answerReady(x *exchange) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), readyTimeout)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return &requestError{kind: api.ErrNotReady, detail: fmt.Sprintf("Not ready: %s.", err)}
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, health{Status: "ok"})
}
