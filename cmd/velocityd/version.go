package main

import (
	"fmt"
	"runtime/debug"

	"velocityd/cmd/velocityd/shell"

	"github.com/alecthomas/kong"
)

// release is the version that this tree becomes, or is, if its commit has the tag. CHANGELOG.md begins with it.
const release = "0.2.0"

// versionFlag prints the version and ends the program.
type versionFlag bool

// BeforeReset implements kong's hook for flags that act at once.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	_, err := fmt.Fprintln(app.Stdout, "velocityd", version())
	app.Exit(exitSuccess)
	return err
}

// versionCmd is the flag as a command.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(p *shell.Process) error {
	_, err := fmt.Fprintln(p.Stdout, "velocityd", version())
	return err
}

// version returns the version of the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return versionOf(info)
}

// versionOf returns the release, if the program was built from its tag. Otherwise it is a version of development
// (semver.org, 9 and 10): the release, -dev, and the commit if Go has stamped one.
func versionOf(info *debug.BuildInfo) string {
	if info.Main.Version == "v"+release {
		return release
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "+" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ".modified"
		}
	}
	if commit == "" {
		modified = ""
	}
	return release + "-dev" + commit + modified
}
