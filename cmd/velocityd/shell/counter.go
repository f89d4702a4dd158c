package shell

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// Counter shows how far a command is, if somebody watches it.
type Counter struct{ bar *progressbar.ProgressBar }

// NewCounter returns the counter of so many things; -1 means that nobody knows how many.
func NewCounter(p *Process, what string, all int) Counter {
	return Counter{progressbar.NewOptions64(int64(all), progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionSetVisibility(IsTerminal(p.Stderr)), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())}
}

// Set shows how many there are now.
func (c Counter) Set(n int) { _ = c.bar.Set64(int64(n)) } // a bar that cannot be shown is no reason to end

// End removes the counter.
func (c Counter) End() { _ = c.bar.Finish() }
