package shell

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// NewBar returns a bar that shows how far a command is, if standard error is a terminal. all is -1 if their number is
// not known. A bar that cannot be shown is no reason to end.
func NewBar(p *Process, what string, all int64, more ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(
		all, append(more, progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription(what),
			progressbar.OptionSetVisibility(IsTerminal(p.Stderr)), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish())...)
}
