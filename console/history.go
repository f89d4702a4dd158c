package console

import (
	"slices"
	"time"

	"velocityd/service"
)

const (
	// historyPage is how many checks the history asks for at once.
	historyPage = 50
	// leastHistoryLines is how many lines a page of the history has at least, if there are so many, and mostFolded bounds
	// the checks that they stand for.
	leastHistoryLines, mostFolded = 20, 10 * historyPage
)

// history is the content of the page of attempts.
type history struct {
	Filter filter
	Zones  []service.Zone
	Page   service.CheckPage
	Checks []checkLine
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
	content := history{Filter: f, Zones: zones}
	content.Page, err = v.pagesOfChecks(f.query, func(all service.CheckPage, newest int) bool {
		// A full page lacks those of its checks that the page before has shown. One with few looked at all that it may.
		if newest < historyPage/2 {
			content.Scanned = service.MaxHistoryScan
		}
		return content.Scanned > 0 || len(all.Checks) >= mostFolded || len(linesOf(all.Checks)) >= leastHistoryLines
	})
	if err != nil {
		return err
	}
	content.Checks = linesOf(content.Page.Checks)
	return v.show("history", "History", "History", content)
}

// pagesOfChecks asks for page after page, and returns all their checks. It ends with the last page, or when those until
// now are enough, of which the newest page has so many.
func (v *visit) pagesOfChecks(
	q service.HistoryQuery, isEnough func(all service.CheckPage, newest int) bool,
) (all service.CheckPage, err error) {
	for {
		page, err := v.api.Checks(v.r.Context(), q)
		if err != nil {
			return all, err
		}
		newest := len(page.Checks)
		page.Checks = slices.Concat(all.Checks, page.Checks)
		if all, q.Cursor = page, page.Next; all.Next == 0 || isEnough(all, newest) {
			return all, nil
		}
	}
}

// checkLine is a line of a list of checks: one check, or a run of checks of the same user with the same decision and
// outcome, as a program makes them that goes on guessing. The line has the members of the newest.
type checkLine struct {
	service.RecordedCheck
	Run []service.RecordedCheck // all of them, the newest first
}

// linesOf folds the runs of a list of checks.
func linesOf(checks []service.RecordedCheck) (lines []checkLine) {
	for _, check := range checks {
		if last := len(lines) - 1; last >= 0 && lines[last].continues(check) {
			lines[last].Run = append(lines[last].Run, check)
			continue
		}
		lines = append(lines, checkLine{check, []service.RecordedCheck{check}})
	}
	return lines
}

// continues reports whether a check looks as those of the line do.
func (l checkLine) continues(check service.RecordedCheck) bool {
	own, other := l.Names(), named(check.Txns, false)
	if len(own)+len(other) == 0 {
		own, other = l.Txns, check.Txns
	}
	return l.Blocked == check.Blocked && l.WouldBlock == check.WouldBlock && l.Reason == check.Reason &&
		l.Outcome == check.Outcome && l.LeftOut == check.LeftOut &&
		slices.EqualFunc(own, other, func(x, y service.Txn) bool { return x.Bucket == y.Bucket })
}

// Sum returns the attempts of the whole line.
func (l checkLine) Sum() (attempts int) {
	for _, check := range l.Run {
		attempts += check.Attempts
	}
	return attempts
}

// RunShown are the newest checks of the line, and RunRest is how many more it has.
func (l checkLine) RunShown() []service.RecordedCheck { return l.Run[:min(len(l.Run), historyPage)] }

// RunRest returns how many checks of the line are not RunShown.
func (l checkLine) RunRest() int { return len(l.Run) - len(l.RunShown()) }

// IsRun reports whether the line stands for several attempts.
func (l checkLine) IsRun() bool { return l.Sum() > 1 }

// Since returns the time of the oldest attempt of the line, and Until that of the newest.
func (l checkLine) Since() time.Time { return l.Run[len(l.Run)-1].CreatedAt.Time }

// Until returns the time of the newest attempt of the line.
func (l checkLine) Until() time.Time { return l.LastAt.Time }

// From are the txns of the newest check whose keys are addresses, and FromOthers is how many more addresses the run
// has.
func (l checkLine) From() []service.Txn { return named(l.Txns, true) }

// FromOthers returns how many addresses the run has beside those of From.
func (l checkLine) FromOthers() int {
	all := map[service.Bucket]bool{}
	for _, check := range l.Run {
		for _, t := range named(check.Txns, true) {
			all[t.Bucket] = true
		}
	}
	return len(all) - len(l.From())
}

// Names are the txns whose keys are no addresses: users, devices and pseudonyms.
func (l checkLine) Names() []service.Txn { return named(l.Txns, false) }

// named returns the txns whose keys are addresses, or those whose keys are none.
func named(txns []service.Txn, addresses bool) []service.Txn {
	return slices.DeleteFunc(slices.Clone(txns), func(t service.Txn) bool {
		_, isAddress := service.NetworkOf(t.Key)
		return isAddress != addresses
	})
}
