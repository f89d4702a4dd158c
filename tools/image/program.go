package main

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// program is a velocityd for Linux.
type program struct {
	path         string
	architecture string // as Go names it
	revision     string // the commit that Go has stamped into it, or ""
	version      string
	made         time.Time
}

// readProgram reads the stamps of a program. It refuses one that the image, which has nothing else in it, could not
// run.
func readProgram(path string) (program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("read the stamps of Go in %s: %w", path, err)
	}
	if system := setting(info, "GOOS"); system != "linux" {
		return program{}, fmt.Errorf("%s is for %s: build it with GOOS=linux", path, system)
	}
	if err := refuseDynamic(path); err != nil {
		return program{}, err
	}
	return program{path: path, architecture: setting(info, "GOARCH"), revision: setting(info, "vcs.revision")}, nil
}

func setting(info *debug.BuildInfo, name string) string {
	i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == name })
	if i < 0 {
		return ""
	}
	return info.Settings[i].Value
}

// refuseDynamic returns an error for a program that needs a loader and libraries.
func refuseDynamic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	isDynamic := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if err := file.Close(); err != nil {
		return err
	}
	if isDynamic {
		return fmt.Errorf("%s needs libraries, and the image has none: build it with CGO_ENABLED=0", path)
	}
	return nil
}

// tag returns the version as a tag may be written: a plus sign is not allowed in one.
func (p program) tag() string { return strings.ReplaceAll(p.version, "+", "-") }

// before sorts programs by their architecture, so that their order on the command line is of no matter.
func before(a, b program) int { return cmp.Compare(a.architecture, b.architecture) }
