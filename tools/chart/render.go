package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// notes is the template whose text helm prints after an installation.
const notes = "NOTES.txt"

// manifests are rendered templates by their names.
type manifests map[string]string

// render renders a chart with the values of a file, which its schema must allow. Templates that make nothing are left
// out.
func render(chartPath, valuesPath, release, namespace string) (manifests, error) {
	c, err := loader.Load(chartPath)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValuesFile(valuesPath)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	prepared, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Engine{Strict: true}.Render(c, prepared)
	if err != nil {
		return nil, err
	}
	made := manifests{}
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(path.Base(name), "_") {
			made[path.Base(name)] = text
		}
	}
	return made, nil
}

// text returns all manifests but the notes as one stream of YAML, in the order of the templates' names.
func (m manifests) text() string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name != notes {
			fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(m[name]))
		}
	}
	return all.String()
}
