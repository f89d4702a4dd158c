package gate

// nearest returns the name that takes the fewest changed letters to become (Levenshtein), the first of several.
func nearest(given string, names []string) string {
	best, least := "", len(given)+64
	for _, name := range names {
		if d := distance(given, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters must be added, removed or replaced to make a text of another one.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
