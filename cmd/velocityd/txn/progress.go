package txn

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"velocityd/service"
)

// Progress shows how far an export is, by the time of its txns.
type Progress struct {
	bar   *progressbar.ProgressBar
	began time.Time // zero until the first txn, if the query does not say
	until time.Time
	txns  int
}

// thousandths is how long the bar is.
const thousandths = 1000

// NewProgress returns the progress of an export of a query, shown on a terminal. It counts, too, if it is not visible.
func NewProgress(terminal io.Writer, visible bool, query service.HistoryQuery) *Progress {
	until := query.Until
	if until.IsZero() {
		until = time.Now()
	}
	bar := progressbar.NewOptions64(thousandths, progressbar.OptionSetWriter(terminal),
		progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription("export"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish())
	return &Progress{bar: bar, began: query.Since, until: until}
}

// Txns returns how many txns were written.
func (s *Progress) Txns() int { return s.txns }

// At tells that a txn is written. The bar moves once in a thousand txns.
func (s *Progress) At(t service.Txn) {
	if s.began.IsZero() {
		s.began = t.CreatedAt.Time
	}
	if s.txns++; s.txns%1000 != 0 {
		return
	}
	s.bar.Describe(fmt.Sprintf("%d txns, at %s", s.txns, t.CreatedAt.UTC().Format(time.DateTime)))
	if all := s.until.Sub(s.began); all > 0 {
		part := int64(thousandths * float64(t.CreatedAt.Sub(s.began)) / float64(all))
		_ = s.bar.Set64(min(thousandths-1, max(0, part))) // the last one ends it
	}
}

// End removes the bar.
func (s *Progress) End() { _ = s.bar.Finish() }
