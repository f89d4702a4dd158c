package console

import (
	"bytes"
	"html/template"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"velocityd/docs"
)

// playbook is a section of docs/playbooks.md, or what stands before the first one, which has no slug.
type playbook struct {
	Slug, Name string
	Text       template.HTML
}

// slug returns the name of a section as addresses have it, and the links of the page itself.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-':
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// readPlaybooks reads the page. Links to other sections become links to their pages. Those to other documents, which
// the console does not have, become their text.
func readPlaybooks() (list []playbook, err error) {
	links := regexp.MustCompile(`\[([^\]]*)\]\(([^)#]*)#?([^)]*)\)`)
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table))
	_, page, _ := strings.Cut(docs.Playbooks, "\n")
	for i, section := range strings.Split(page, "\n## ") {
		one := playbook{Name: "Playbooks"}
		if i > 0 {
			one.Name, section, _ = strings.Cut(section, "\n")
			one.Slug = slug(one.Name)
		}
		section = links.ReplaceAllStringFunc(section, func(link string) string {
			if parts := links.FindStringSubmatch(link); parts[2] != "" {
				return parts[1]
			}
			return strings.Replace(link, "(#", "("+Path+"playbooks/", 1)
		})
		var text bytes.Buffer
		if err := markdown.Convert([]byte(section), &text); err != nil {
			return nil, err
		}
		one.Text = template.HTML(text.String()) //nolint:gosec // the page is the program's own, and raw HTML is left out
		list = append(list, one)
	}
	return list, nil
}

// playbook shows the list of playbooks, or the one that the path names.
func (v *visit) playbook() error {
	for _, one := range v.playbooks {
		if one.Slug == v.r.PathValue("slug") {
			return v.show("playbooks", "Attacks", one.Name, struct {
				playbook
				All []playbook
			}{one, v.playbooks})
		}
	}
	return v.unknown()
}
