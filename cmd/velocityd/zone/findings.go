package zone

import (
	"context"
	"fmt"
	"io"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service/lint"
)

// confirmFindings prints the findings about the one thing that a command changes. At a terminal it asks whether to save
// it all the same.
func confirmFindings(ctx context.Context, p *shell.Process, yes shell.YesFlag, findings []lint.Finding) error {
	for i := range findings {
		findings[i].ZoneID = 0 // the command names it
	}
	printFindings(p.Stderr, findings)
	if len(findings) == 0 || !shell.IsTerminal(p.Stdin) || !shell.IsTerminal(p.Stderr) {
		return nil
	}
	return yes.Confirm(ctx, p, "Save it all the same?")
}

func printFindings(w io.Writer, findings []lint.Finding) {
	for _, finding := range findings {
		fmt.Fprintf(w, "probably not meant: %s\n", finding)
	}
}
