// Package spelling finds the known name that is nearest to a mistyped one. It must not know where names stand.
package spelling

import "github.com/agnivade/levenshtein"

// Nearest returns the first of the names that differ least from a given one, or "" if each differs in more than a third
// of its letters.
func Nearest(given string, names []string) string {
	nearest, least := "", max(1, len(given)/3)+1
	for _, name := range names {
		if n := levenshtein.ComputeDistance(given, name); n < least {
			nearest, least = name, n
		}
	}
	return nearest
}
