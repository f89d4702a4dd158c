package docs_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// configurations is what a block of a gateway's page may be written in. Such a block is a file of doors, whose tests
// run it, and the page's shell as well.
func configurations() []string {
	return []string{"nginx", "caddy", "haproxy", "lua", "unlang", "dovecot", "pam", "sshd", "fail2ban", "bash", "yaml"}
}

// isOfDoor says that a block is run by the tests of doors.
func (b block) isOfDoor() bool { return strings.HasPrefix(b.page, "docs/doors/") }

// TestPagesOfDoorsShowFilesOfTheirTests holds that each file is shown once or linked, and that nothing else is shown.
func TestPagesOfDoorsShowFilesOfTheirTests(t *testing.T) {
	t.Parallel()
	shown, linked := map[string]int{}, ""
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/doors/") {
			linked += readPage(t, page)
		}
		for _, b := range pageBlocks(t, page) {
			if b.isOfDoor() && slices.Contains(configurations(), b.language) {
				shown[b.text]++
			}
		}
	}
	files := os.DirFS("../doors")
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		isOfProgram := strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "proxy/blocked.")
		if err != nil || entry.IsDir() || isOfProgram {
			return err
		}
		text, err := fs.ReadFile(files, path)
		isLinked := strings.Contains(linked, "](../../doors/"+path+")")
		if n := shown[string(text)]; n > 1 || (n == 1) == isLinked {
			t.Errorf("doors/%s is shown by %d pages of docs/doors (linked: %t), want 1 or a link", path, n, isLinked)
		}
		delete(shown, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for text := range shown {
		t.Errorf("docs/doors shows what is no file of doors:\n%s", text)
	}
}
