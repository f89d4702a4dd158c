// Package spelling finds the name that somebody meant who has written another one. It must not know where names stand.
package spelling

// Nearest returns the first of the names that differ least from a given one, or "" if each differs in more than a third
// of its letters.
func Nearest(given string, names []string) string {
	nearest, least := "", max(1, len(given)/3)+1
	for _, name := range names {
		if n := distance(given, name); n < least {
			nearest, least = name, n
		}
	}
	return nearest
}

// distance returns how many bytes of a must be inserted, removed or replaced to make b (Levenshtein's distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
