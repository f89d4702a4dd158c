// Command image makes container images of velocityd, without a daemon and without a base: a static program, the roots
// of TLS, one user, and the configuration file of deploy/containers. It writes an OCI layout as a tar file, with an
// image for each program that it is given, and for each a tar file for `docker load`. The same programs and the same
// tree make the same bytes. It must not know how velocityd is built.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run carries out the command line, and prints the names of the files that it made.
func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tree := flags.String("tree", ".", "folder of the project, whose LICENSE and configuration file go into the image")
	out := flags.String("out", ".", "folder for the images")
	version := flags.String("version", "", "version of the programs, as they print it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *version == "" {
		return errors.New("name the version, and the programs, one for each architecture: " +
			"image -version VERSION [-tree DIR] [-out DIR] linux-amd64/velocityd …")
	}
	made, err := epoch()
	if err != nil {
		return err
	}
	var programs []program
	for _, path := range flags.Args() {
		p, err := readProgram(path)
		if err != nil {
			return err
		}
		p.version, p.made = *version, made
		programs = append(programs, p)
	}
	files, err := writeImages(*out, *tree, programs)
	for _, path := range files {
		fmt.Fprintln(stdout, path)
	}
	return err
}

// epoch returns the time that everything in the images gets: SOURCE_DATE_EPOCH (reproducible-builds.org), or 1970.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970; it is %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
