package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// counter shows how far a command is, if somebody watches it.
type counter struct{ bar *progressbar.ProgressBar }

// newCounter returns the counter of so many things; -1 means that nobody knows how many.
func newCounter(p *process, what string, all int) counter {
	return counter{progressbar.NewOptions64(int64(all), progressbar.OptionSetWriter(p.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionSetVisibility(isTerminal(p.stderr)), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())}
}

func (c counter) at(n int) { _ = c.bar.Set64(int64(n)) } // a bar that cannot be shown is no reason to end

func (c counter) end() { _ = c.bar.Finish() }
