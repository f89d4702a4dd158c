package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/spelling"
)

// variablePrefix begins the names of the program's environment variables.
const variablePrefix = "VELOCITY_"

// variables returns the names of the variables that have an effect on some command, without their prefix.
func variables() []string {
	names := map[string]bool{"TOKEN": true, "CACHE": true} // of package ask, and of db/localdb
	var collect func(reflect.Type)
	collect = func(grammar reflect.Type) {
		for i := range grammar.NumField() {
			field := grammar.Field(i)
			if name, ok := strings.CutPrefix(field.Tag.Get("env"), variablePrefix); ok {
				names[name] = true
			}
			if field.Type.Kind() == reflect.Struct {
				collect(field.Type)
			}
		}
	}
	collect(reflect.TypeFor[cli]())
	return slices.Sorted(maps.Keys(names))
}

// unknownVariables looks for variables that begin like those of the program and are none. One that differs by a few
// letters can only be a mistake, whose setting would be missing, so it is an error. The others may belong to another
// version or to other programs: they are returned, for the log. Variables of tests, and those that Kubernetes makes for
// a Service velocityd, are neither.
func unknownVariables(environ []string) (unknown []string, err error) {
	known := variables()
	slices.Sort(environ)
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		head, rest, _ := strings.Cut(strings.ToUpper(name), "_")
		isOwn := strings.HasPrefix(name, variablePrefix)
		if spelling.Nearest(head, []string{"VELOCITY"}) == "" || isOwn &&
			(slices.Contains(known, rest) || strings.HasPrefix(rest, "TEST_")) {
			continue
		}
		if meant := spelling.Nearest(rest, known); meant != "" {
			return nil, shell.Usagef("%s is no variable of this program: did you mean %s%s? Set that one, or unset %s", name,
				variablePrefix,
				meant, name)
		}
		if isOwn {
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}
