package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCommandsThatPagesNameExist reads the commands in prose, tables and blocks of all pages, and holds their words and
// flags against the grammar. Words in capitals, and those behind a command's last word, are arguments.
func TestCommandsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	parser := parserOf(t, &cli{}, environment{})
	commands, named := commandNames(parser.Model.Node), 0
	for page, text := range pages(t) {
		for _, line := range commandsOf(commands, text) {
			named++
			if line == "known client v1." {
				continue // a label of the page, which no shell runs
			}
			if wrong := misnamed(parser.Model.Node, line); wrong != "" {
				t.Errorf("%s: %q: there is no %s", page, line, wrong)
			}
		}
	}
	if named < 300 {
		t.Errorf("the pages name %d commands: their form is read no more", named)
	}
}

func TestACommandThatDoesNotExistIsFound(t *testing.T) {
	t.Parallel()
	parser := parserOf(t, &cli{}, environment{})
	commands := commandNames(parser.Model.Node)
	for text, want := range map[string]string{
		"by `velocityd token certificate`; x":              "certificate",
		"| `velocityd zone set 1 --rat 5` |":               "--rat",
		"`zone sett 1`":                                    "sett",
		"```sh\nA=b velocityd check 1 a \\\n  --no 1\n```": "--no",
		"`velocityd token create a --scope check`":         "",
		"`velocityd` limits; `velocityd serve`":            "",
		"```sh\nvelocityd zone list | jq --raw\n```":       "",
	} {
		got := ""
		for _, line := range commandsOf(commands, text) {
			got += misnamed(parser.Model.Node, line)
		}
		if got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// pages returns the texts of the pages for people.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/doors/*.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages %s (%v)", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(file) != "CHANGELOG.md" { // it tells of commands that went, too
				texts[strings.TrimPrefix(file, "../../")] = string(text)
			}
		}
	}
	return texts
}

// commandsOf returns the commands of a page without the name of the program: behind it anywhere in code, and code in
// prose that begins with a group of commands.
func commandsOf(commands []string, text string) (lines []string) {
	fence := regexp.MustCompile("(?ms)^ *```[a-z0-9]*\n(.*?)^ *```$")
	program := regexp.MustCompile(`(?:^|[\s/'"(=])velocityd +([a-z][^` + "`" + `|;&>#)"\n]*)`)
	isCommand := regexp.MustCompile(`^(?:` + strings.Join(commands, "|") + `)(?: |$)`)
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			for _, found := range program.FindAllStringSubmatch(line, -1) {
				if isCommand.MatchString(found[1]) { // other words are those of a comment or an answer
					lines = append(lines, found[1])
				}
			}
		}
	}
	group := regexp.MustCompile(`^(?:migrate|zone|token|override|bucket|txn|webhook|gate|subject|pam|sync) [a-z]+( |$)`)
	for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		one := strings.Join(strings.Fields(code[1]), " ")
		for _, found := range program.FindAllStringSubmatch(one, -1) {
			lines = append(lines, found[1])
		}
		if group.MatchString(one) {
			lines = append(lines, one)
		}
	}
	return lines
}

// commandNames returns the first words of all commands.
func commandNames(root *kong.Node) (names []string) {
	for _, child := range root.Children {
		names = append(names, child.Name)
	}
	return names
}

// misnamed returns the first word or flag of a command that the grammar lacks, or "".
func misnamed(node *kong.Node, line string) string {
	words := strings.Fields(line)
	for len(words) > 0 && len(node.Children) > 0 && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(words[0]) {
		i := slices.IndexFunc(node.Children,
			func(n *kong.Node) bool { return n.Name == words[0] || slices.Contains(n.Aliases, words[0]) })
		if i < 0 {
			return words[0]
		}
		node, words = node.Children[i], words[1:]
	}
	flags := node.AllFlags(false)
	for _, flag := range regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`).FindAllStringSubmatch(" "+strings.Join(words, " "),
		-1) {
		if !slices.ContainsFunc(flags, func(group []*kong.Flag) bool {
			return slices.ContainsFunc(group, func(f *kong.Flag) bool { return "--"+f.Name == flag[1] })
		}) {
			return flag[1]
		}
	}
	return ""
}
