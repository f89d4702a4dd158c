package console

import (
	"cmp"

	"velocityd/service"
)

// historyPage is how many attempts a page of the history shows.
const historyPage = 50

// history is the content of the page of attempts.
type history struct {
	Filter filter
	Zones  []service.Zone
	Page   service.HistoryPage
	Checks []checkRow
	// Scanned is how many attempts were looked at where few of them match. 0 says that the page is full, or at the end.
	Scanned int
}

// history shows attempts that pass the filters in the address, the newest first.
func (v *visit) history() error {
	f, err := v.filter(v.r.URL.Query())
	if err != nil {
		return err
	}
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	f.query.WithOthers = true
	page, err := v.api.History(v.r.Context(), f.query)
	if err != nil {
		return err
	}
	content := history{Filter: f, Zones: zones, Page: page, Checks: checkRows(page)}
	if page.Next != 0 && len(page.Txns) < historyPage {
		content.Scanned = service.MaxHistoryScan
	}
	return v.show("history", "History", "History", content)
}

// checkRow is a row of a list of checks. Its own txn is the one that decided: that which blocked, or had no room, or
// the first.
type checkRow struct {
	service.Txn
	Txns []service.Txn // of all buckets
}

func checkRows(page service.HistoryPage) (rows []checkRow) {
	for _, check := range page.Checks() {
		row := checkRow{Txn: check[0], Txns: check}
		for _, t := range check {
			if t.WouldBlock && !row.WouldBlock {
				row.Txn = t
			}
		}
		for _, t := range check { // a report may name one txn, and zones give places back by themselves
			row.Outcome = cmp.Or(row.Outcome, t.Outcome)
			row.Attempts = max(row.Attempts, t.Attempts)
		}
		rows = append(rows, row)
	}
	return rows
}
