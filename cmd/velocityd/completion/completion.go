// Package completion completes command lines in shells. It must not know any command.
package completion

import (
	"embed"
	"fmt"
	"strings"

	"velocityd/cmd/velocityd/shell"

	"github.com/alecthomas/kong"
)

// completionScripts has one file for each shell. The scripts hold no names of commands
// or flags. They run WordsCommand, so they are never out of date.
//
//go:embed velocityd.*
var completionScripts embed.FS

// Command prints a script that completes.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell that completes: bash, zsh or fish."`
}

func (Command) Help() string {
	return `Where to put the script, for one user:

  velocityd completion bash > ~/.local/share/bash-completion/completions/velocityd
  velocityd completion zsh > "${fpath[1]}/_velocityd"
  velocityd completion fish > ~/.config/fish/completions/velocityd.fish

For the shell that runs now: source <(velocityd completion bash)`
}

// Run prints the script.
func (c *Command) Run(p *shell.Process) error {
	script, err := completionScripts.ReadFile("velocityd." + c.Shell)
	if err != nil {
		return fmt.Errorf("read completion script: %w", err)
	}
	_, err = p.Stdout.Write(script)
	return err
}

// WordsCommand is the hidden command that the scripts run.
type WordsCommand struct {
	Words []string `arg:"" optional:"" sep:"none" help:"A command line up to the cursor, and the program's name before it."`
}

// Run prints a line for each word that may replace the last one: the word and, after
// a tab, what it means. It prints nothing if it knows no such word, for example for a
// key or a file.
func (c *WordsCommand) Run(app *kong.Kong, p *shell.Process) error {
	if len(c.Words) < 2 {
		return nil
	}
	line := commandLine{node: app.Model.Node}
	words := c.Words[1:]
	if words[0] == "help" && len(words) > 1 {
		words = words[1:] // help COMMAND is completed as COMMAND is
	}
	for _, word := range words[:len(words)-1] {
		line.take(word)
	}
	for _, candidate := range line.candidates(words[len(words)-1]) {
		if _, err := fmt.Fprintln(p.Stdout, candidate); err != nil {
			return err
		}
	}
	return nil
}

// commandLine is a command line of which some words have been read.
type commandLine struct {
	node      *kong.Node
	arguments int        // how many arguments the command has so far
	flag      *kong.Flag // the flag whose value comes next, or nil
	onlyArgs  bool       // "--" has been read
}

// take reads one more word.
func (l *commandLine) take(word string) {
	switch {
	case l.flag != nil && word == "=": // bash takes --flag=value apart
	case l.flag != nil:
		l.flag = nil
	case !l.onlyArgs && word == "--":
		l.onlyArgs = true
	case !l.onlyArgs && strings.HasPrefix(word, "-"):
		name, _, hasValue := strings.Cut(word, "=")
		if flag := l.find(name); flag != nil && !hasValue && !flag.IsBool() {
			l.flag = flag
		}
	default:
		for _, child := range l.node.Children {
			if child.Name == word && !l.onlyArgs {
				l.node = child
				return
			}
		}
		l.arguments++
	}
}

// candidates returns the words that begin with begun and may come next.
func (l *commandLine) candidates(begun string) []string {
	name, value, isAssignment := strings.Cut(begun, "=")
	switch {
	case l.flag != nil:
		return valuesOf(l.flag.Value, "", strings.TrimPrefix(begun, "="))
	case !l.onlyArgs && strings.HasPrefix(begun, "--") && isAssignment:
		if flag := l.find(name); flag != nil {
			return valuesOf(flag.Value, name+"=", value)
		}
		return nil
	case !l.onlyArgs && strings.HasPrefix(begun, "-"):
		return l.flags(begun)
	}
	var list []string
	for _, child := range l.node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, begun) {
			list = append(list, child.Name+"\t"+child.Help)
		}
	}
	if l.arguments < len(l.node.Positional) {
		list = append(list, valuesOf(l.node.Positional[l.arguments], "", begun)...)
	}
	return list
}

// flags returns the flags of the command and of those above it.
func (l *commandLine) flags(begun string) []string {
	var list []string
	for _, group := range l.node.AllFlags(true) {
		for _, flag := range group {
			names := []string{"--" + flag.Name}
			if flag.Tag.Negatable != "" {
				names = append(names, "--no-"+flag.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(name, begun) {
					list = append(list, name+"\t"+flag.Help)
				}
			}
		}
	}
	return list
}

func (l *commandLine) find(name string) *kong.Flag {
	for _, group := range l.node.AllFlags(false) {
		for _, flag := range group {
			if "--"+flag.Name == name {
				return flag
			}
		}
	}
	return nil
}

// valuesOf returns the listed values of a flag or argument that begin with begun,
// each with prefix in front of it.
func valuesOf(value *kong.Value, prefix, begun string) []string {
	var list []string
	for _, one := range value.EnumSlice() {
		if one != "" && strings.HasPrefix(one, begun) {
			list = append(list, prefix+one)
		}
	}
	return list
}
