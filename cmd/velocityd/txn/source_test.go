package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"velocityd/cmd/velocityd/txn"
	"velocityd/service"
)

// store has two pages, and then fails.
type store struct {
	noted service.Export
	err   error // of NoteExport
	asked []service.HistoryQuery
}

func (s *store) NoteExport(_ context.Context, export service.Export, _ string) error {
	s.noted = export
	return s.err
}

func (s *store) History(_ context.Context, q service.HistoryQuery) (service.HistoryPage, error) {
	s.asked = append(s.asked, q)
	if len(s.asked) > 2 {
		return service.HistoryPage{}, service.ErrBusy
	}
	id := q.Cursor + 1
	return service.HistoryPage{Txns: []service.Txn{{ID: id}}, Next: id, Last: id}, nil
}

func TestALocalExportIsRecordedUnderItsKeysAndEndsWithItsError(t *testing.T) {
	t.Parallel()
	named := 0
	s := &store{}
	local := txn.Local{Store: s, RecordedKeys: func(_ context.Context, b service.Bucket) ([]string, error) {
		named++
		return []string{"new " + b.Key, "old " + b.Key}, nil
	}}
	query := txn.Filter{Zones: []int64{1}, Keys: []string{"a"}}.Query(service.OldestFirst)
	var got []string
	for found, err := range local.Export(t.Context(), query, "") {
		got = append(got, fmt.Sprint(found.ID, err))
	}
	if want := "1 <nil>,2 <nil>,0 busy"; strings.Join(got, ",") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fmt.Sprint(s.noted.Query.Keys) != "[new a old a]" || named != 1 || fmt.Sprint(s.asked[1].Keys) != "[new a old a]" {
		t.Errorf("recorded %q, read %q, after %d look-ups", s.noted.Query.Keys, s.asked[1].Keys, named)
	}
	s = &store{err: service.ErrForbidden}
	for _, err := range (txn.Local{Store: s}).Export(t.Context(), query, "") {
		if !errors.Is(err, service.ErrForbidden) || len(s.asked) > 0 {
			t.Errorf("an export that cannot be recorded: %v, and %d pages were read", err, len(s.asked))
		}
	}
}
