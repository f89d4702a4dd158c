package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestTheChangelogBeginsWithTheVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(
		`(?m)^## (?:Unreleased: (\d+\.\d+\.\d+)|(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\))$`).FindSubmatch(text)
	if heading == nil {
		t.Fatal("CHANGELOG.md has no heading such as '## Unreleased: 0.1.0' or '## 0.1.0 (2026-12-24)'")
	}
	if newest := string(heading[1]) + string(heading[2]); newest != release {
		t.Errorf("CHANGELOG.md begins with %s, and the program is %s", newest, release)
	}
}

func TestVersionIsTheTagOrSaysNone(t *testing.T) {
	t.Parallel()
	stamp := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified},
		}
	}
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v" + release, stamp(commit, "false"), release},
		{"v" + release, nil, release}, // go install of a version
		{"v" + release + "+dirty", stamp(commit, "true"), release + "-dev+0123456789ab.modified"},
		{"v0.0.0-20261126181800-0123456789ab", stamp(commit, "false"), release + "-dev+0123456789ab"},
		{"v0.0.9", stamp(commit, "false"), release + "-dev+0123456789ab"},
		{"(devel)", nil, release + "-dev"},
		{"", []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, release + "-dev"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := versionOf(info); got != c.want {
			t.Errorf("%s with %v: got %s, want %s", c.main, c.settings, got, c.want)
		}
	}
}
