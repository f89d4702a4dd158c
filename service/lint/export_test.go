package lint

// Texts returns what Findings can say, each text once for each finding.
func Texts() []string {
	var texts []string
	for _, odd := range oddities {
		texts = append(texts, odd.text)
	}
	return texts
}
