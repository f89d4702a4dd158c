// Package docs has the pages that the program shows.
package docs

import _ "embed" // the pages

// Playbooks is playbooks.md.
//
//go:embed playbooks.md
var Playbooks string
