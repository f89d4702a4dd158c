package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// The paths that load balancers and monitors ask every few seconds. Their requests
// are logged at level debug.
const (
	pathLive  = "/livez"
	pathReady = "/readyz"
	// pathMetrics is asked by Prometheus.
	pathMetrics = "/metrics"
)

// IsProbe reports whether a path is one that load balancers and monitors ask for every few
// seconds.
func IsProbe(path string) bool {
	switch path {
	case pathLive, pathReady, pathHealthcheck, pathMetrics:
		return true
	}
	return false
}

const readyTimeout = 2 * time.Second

// live answers GET /livez: the process runs. It does not look at the database.
func (s *server) live(x *exchange) error {
	return x.respondJSON(http.StatusOK, api.MediaJSON, api.Health{Status: "ok"})
}

// answerReady answers GET /readyz with 200 if checks can be decided now, and
// otherwise with 503 and the reason, and with the time of the last change. With degraded=ok in its query, answers that are
// given without the database do as well.
func (s *server) answerReady(x *exchange) error {
	ready := s.Ready
	switch x.QueryParam("degraded") {
	case "":
	case "ok":
		ready = s.Answers
	default:
		return problem.Invalid("degraded must be ok, or left out.")
	}
	ctx, cancel := context.WithTimeout(x.Request().Context(), readyTimeout)
	defer cancel()
	if err := ready(ctx); err != nil {
		return problem.NewSince(api.ErrNotReady, fmt.Sprintf("Not ready: %s.", err), s.ReadySince())
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, api.Health{Status: "ok", Since: service.At(s.ReadySince())})
}

// showMetrics answers GET /metrics.
func (s *server) showMetrics(x *exchange) error {
	leave, err := s.takePlace(x, s.scrapes, service.ErrBusy)
	if err != nil {
		return err
	}
	defer leave()
	wire.SetAnswerDeadline(x.Response())
	s.Metrics.ServeHTTP(x.Response(), x.Request())
	return nil
}
