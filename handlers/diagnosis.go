package handlers

import (
	"context"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/service/refresh"
)

const (
	pathDiagnosis = "/v1/diagnosis"
	// diagnosisAge is how long the findings of one examination are answered to all.
	diagnosisAge = 10 * time.Second
	// diagnosisTimeout bounds one examination, which tries each thing that the service does.
	diagnosisTimeout = 20 * time.Second
)

// showDiagnosis answers GET /v1/diagnosis.
func (s *server) showDiagnosis(x *exchange) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), diagnosisTimeout)
	defer cancel()
	isYoung := func(last *refresh.Reading[api.Diagnosis]) bool { return time.Since(last.Ended) < diagnosisAge }
	made, err := s.diagnosis.Get(ctx, isYoung)
	if err == nil {
		err = made.Err
	}
	if err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, made.Value)
}

func (s *server) diagnose(ctx context.Context) (api.Diagnosis, error) {
	list, err := s.Examine(ctx)
	return api.NewDiagnosis(list, time.Now()), err
}
