package console

import "velocityd/service"

// historyPage is how many attempts a page of the history shows.
const historyPage = 50

// history is the content of the page of attempts.
type history struct {
	Filter filter
	Zones  []service.Zone
	Page   service.HistoryPage
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
	page, err := v.api.History(v.r.Context(), f.query)
	if err != nil {
		return err
	}
	content := history{Filter: f, Zones: zones, Page: page}
	if page.Next != 0 && len(page.Txns) < historyPage {
		content.Scanned = service.MaxHistoryScan
	}
	return v.show("history", "History", "History", content)
}
