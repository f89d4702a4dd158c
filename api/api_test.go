package api_test

import (
	"errors"
	"fmt"
	"testing"

	"velocityd/api"
)

func TestEveryCodeStandsForItsError(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range api.Kinds() {
		found, known := api.KindOf(fmt.Errorf("do something: %w", kind.Err))
		problem := api.NewProblem(found)
		if !known || found != kind || !errors.Is(&problem, kind.Err) || problem.Status != kind.Status ||
			problem.Title == "" || seen[kind.Code] {
			t.Errorf("%v is %+v, %+v", kind.Err, found, problem)
		}
		seen[kind.Code] = true
	}
	if kind, known := api.KindOf(errors.New("of no kind")); known || !errors.Is(kind.Err, api.ErrInternal) {
		t.Errorf("of no kind is %+v", kind)
	}
	for _, code := range []string{"", "of_next_year"} {
		if err := (&api.Problem{Title: "T", Code: code}).Unwrap(); err != nil {
			t.Errorf("code %q stands for %v", code, err)
		}
	}
	if text := (&api.Problem{Title: "T", Detail: "d."}).Error(); text != "T: d." {
		t.Errorf("says %s", text)
	}
}
