package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"velocityd/console/chart"
	"velocityd/service"
	"velocityd/service/explain"
)

func TestDecisionNamesPartsNoLongerKnown(t *testing.T) {
	t.Parallel()
	c := &console{}
	var err error
	if c.files, err = readFiles(); err != nil {
		t.Fatal(err)
	}
	if c.pages, err = c.parsePages(); err != nil {
		t.Fatal(err)
	}
	c.keys = newSealer(make([]byte, keyLength), "key")
	x := explain.Explanation{
		Summary: "Blocked.", Txn: service.Txn{
			ID: 7, Bucket: service.Bucket{ZoneID: 1, Key: "alice"},
			CreatedAt: service.At(time.Unix(0, 0)), Blocked: true,
		},
		Unknown: []explain.Gap{{Part: explain.PartSettings, Why: "the record of changes begins later"}},
	}
	parsed, err := c.pages["decision"]()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := parsed.ExecuteTemplate(
		&text, "main", page{Path: Path, Content: decision{Explanation: x, Figure: chart.NewWindow(x)}}); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"Not known any more", "the record of changes begins later.",
		"It is not known any more.",
	} {
		if !strings.Contains(text.String(), wanted) {
			t.Errorf("the page lacks %q: %s", wanted, text.String())
		}
	}
	if strings.Contains(text.String(), "<figure") {
		t.Errorf("a window that is not known is drawn: %s", text.String())
	}
}
