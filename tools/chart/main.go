// Command chart packs the Helm chart of velocityd, so that the same tree makes the same bytes, and renders it as
// `helm template` does, for machines without helm and for the tests. It must not know velocityd.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

const usage = "chart pack -version VERSION [-out DIR] CHART, or chart render [-release NAME] [-namespace NAME] CHART " +
	"VALUES-FILE"

// run carries out the command line.
func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("chart "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "pack":
		version := flags.String("version", "", "version of the program, which the chart gets too")
		out := flags.String("out", ".", "folder for the chart")
		if err := parse(flags, args[1:], 1); err != nil {
			return err
		}
		path, err := pack(flags.Arg(0), *out, *version)
		if err != nil {
			return fmt.Errorf("pack %s: %w", flags.Arg(0), err)
		}
		_, err = fmt.Fprintln(stdout, path)
		return err
	case "render":
		release := flags.String("release", "velocityd", "name of the release")
		namespace := flags.String("namespace", "default", "namespace of the release")
		if err := parse(flags, args[1:], 2); err != nil {
			return err
		}
		manifests, err := render(flags.Arg(0), flags.Arg(1), *release, *namespace)
		if err != nil {
			return fmt.Errorf("render %s with %s: %w", flags.Arg(0), flags.Arg(1), err)
		}
		_, err = io.WriteString(stdout, manifests.text())
		return err
	}
	return errors.New(usage)
}

// parse reads the flags, behind which so many names of files have to stand.
func parse(flags *flag.FlagSet, args []string, files int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != files {
		return errors.New(usage)
	}
	return nil
}
