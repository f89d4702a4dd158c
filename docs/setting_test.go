package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestContributingListsTheFilesOfAZoneSetting(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readPage(t, "CONTRIBUTING.md"), "\n## One more zone setting\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, path := range regexp.MustCompile("`([a-z_0-9]+/\\S+\\.(?:go|sql|yaml))`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, alternatives(path[1])...)
	}
	slices.Sort(listed)
	if got := filesNaming(t, regexp.MustCompile(`\b(v_)?record_blocked\b|\bRecordBlocked\b`)); !slices.Equal(got, listed) {
		t.Errorf("record_blocked is named by\n\t%s\nand CONTRIBUTING lists\n\t%s", strings.Join(got, "\n\t"), strings.Join(listed, "\n\t"))
	}
}

// alternatives returns the paths that one with {a,b} in it stands for.
func alternatives(path string) (paths []string) {
	before, rest, _ := strings.Cut(path, "{")
	among, after, isSet := strings.Cut(rest, "}")
	if !isSet {
		return []string{path}
	}
	for _, one := range strings.Split(among, ",") {
		paths = append(paths, before+one+after)
	}
	return paths
}

// filesNaming returns the files of the program with a match outside of comments.
func filesNaming(t *testing.T, name *regexp.Regexp) (paths []string) {
	t.Helper()
	comment := regexp.MustCompile(`//.*|-- .*|(?s)COMMENT '[^']*'`)
	tree := os.DirFS("..")
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && entry.Name() != "." || entry.Name() == "servicetest" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".sql", ".yaml", ".yml"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, path)
		if err == nil && name.Match(comment.ReplaceAll(text, nil)) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}
