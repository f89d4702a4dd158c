package service

// LintTexts returns what Lint can say, each text once for each finding.
func LintTexts() []string {
	var texts []string
	for _, odd := range oddities {
		texts = append(texts, odd.text)
	}
	return texts
}
