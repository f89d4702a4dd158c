package telemetry_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// readFamilies returns the metrics of an answer in Prometheus' binary form, by name.
func readFamilies(t *testing.T, request *http.Request) map[string]*dto.MetricFamily {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	families := map[string]*dto.MetricFamily{}
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	for {
		family := new(dto.MetricFamily)
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return families
		case err != nil:
			t.Fatal(err)
		}
		families[family.GetName()] = family
	}
}
