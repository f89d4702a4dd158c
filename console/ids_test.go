package console

import (
	"slices"
	"testing"

	"velocityd/console/format"
	"velocityd/service"
)

func TestTxnIDsAreReadInPastedSpellings(t *testing.T) {
	t.Parallel()
	s := newSpelling()
	for _, text := range []string{
		"48213", "#48213", "  48213\n", "# 48213", "48 213", "48,213", "48'213", "48’213", "48_213", "48\u202f213",
		"48\u2009213", "48\u00a0213", "４８２１３", "＃４８２１３", "txn 48213", "TXN #48213", "txn: 48,213", "048213",
	} {
		if id, ok := s.txnID(text); !ok || id != 48213 {
			t.Errorf("%q is read as %d, %t", text, id, ok)
		}
	}
	if id, ok := s.txnID("18 446 744 073 709 551 615"); !ok || id != 18446744073709551615 {
		t.Errorf("the highest id is read as %d, %t", id, ok)
	}
	for _, text := range []string{
		"", "0", "#", "-1", "1.5", "203.113.100.200", "1e3", "4 8213", "48,21",
		"18446744073709551616", "alice", "0x1f", "٤٢",
	} {
		if id, ok := s.txnID(text); ok {
			t.Errorf("%q is read as %d", text, id)
		}
	}
}

func TestAttemptIDsAreReadInAnySpelling(t *testing.T) {
	t.Parallel()
	s := newSpelling()
	const uuid = "5b0c0b3e-7f21-4d3a-9c1e-0a8b7c6d5e4f"
	for text, want := range map[string]string{
		" " + uuid + " ":                       uuid,
		"5B0C0B3E-7F21-4D3A-9C1E-0A8B7C6D5E4F": uuid,
		"5b0c0b3e7f214d3a9c1e0a8b7c6d5e4f":     uuid,
		"{" + uuid + "}":                       uuid,
		"urn:uuid:" + uuid:                     uuid,
		"５b0c0b3e-7f21-4d3a-9c1e-0a8b7c6d5e4f": uuid,
		uuid:                                   "5b0c0b3e7f214d3a9c1e0a8b7c6d5e4f",
		"mfrggzdfmztwq2lknnwg23tpob":           "MFRGGZDFMZTWQ2LKNNWG23TPOB",
		"Login-7":                              "Login-7",
	} {
		if ids := s.attemptIDs(text); !slices.Contains(ids, want) {
			t.Errorf("%q is read as %q", text, ids)
		}
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("#48,213")
	f.Add("5b0c0b3e7f214d3a9c1e0a8b7c6d5e4f")
	s := newSpelling()
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := s.txnID(text); ok {
			if again, ok := s.txnID("#" + format.Num(id)); !ok || again != id {
				t.Errorf("%q is txn %d, and the page's own spelling of it is %d", text, id, again)
			}
		}
		ids := s.attemptIDs(text)
		if len(ids) > 7 {
			t.Errorf("%q leads to %d look-ups", text, len(ids))
		}
		for _, id := range ids {
			if err := service.ValidateAttemptID(id); err != nil {
				t.Errorf("%q is read as %q: %v", text, id, err)
			}
		}
	})
}
