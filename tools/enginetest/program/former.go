//go:build linux

package program

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// BuildFormer makes, in a folder, the program from which an upgrade begins: the checkout that is the working folder,
// with the steps, procedures, triggers and views of the newest release before the newest step.
func BuildFormer(ctx context.Context, folder string) (binary string, err error) {
	text, err := os.ReadFile("migrations/released.txt")
	if err != nil {
		return "", err
	}
	steps, _ := filepath.Glob("migrations/[0-9]*.sql")
	released, newest := string(text), filepath.Base(steps[len(steps)-1])
	if strings.Contains(released, newest) {
		released = released[:strings.LastIndex(released, "# ")]
	}
	versions := regexp.MustCompile(`(?m)^# (.+)`).FindAllStringSubmatch(released, -1)
	if len(versions) == 0 {
		return "", fmt.Errorf("no release is before the step %s", newest)
	}
	version := versions[len(versions)-1][1]
	texts := filepath.Join(folder, version)
	if err := os.Mkdir(texts, 0o700); err != nil {
		return "", err
	}
	packed := "migrations/testdata/" + version + ".tar.gz"
	if out, err := exec.CommandContext(ctx, "tar", "-xzf", packed, "-C", texts).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w: %s", packed, err, out)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": formerFiles(released, texts)})
	if err == nil {
		err = os.WriteFile(texts+".json", overlay, 0o600)
	}
	if err != nil {
		return "", err
	}
	binary = filepath.Join(folder, "velocityd-"+version)
	return binary, Build(ctx, binary, "-overlay", texts+".json")
}

// formerFiles are the places of the files of migrations by their paths: a released step stays, another one is not
// there, and routines are those of a folder.
func formerFiles(released, texts string) map[string]string {
	places := map[string]string{}
	for _, kind := range []string{"[0-9]*.sql", "procedures/*", "triggers/*", "views/*", "retired.txt"} {
		here, _ := filepath.Glob("migrations/" + kind)
		for _, path := range here {
			if absolute, _ := filepath.Abs(path); !strings.Contains(released, "  "+filepath.Base(path)+"\n") {
				places[absolute] = ""
			}
		}
		former, _ := filepath.Glob(filepath.Join(texts, kind))
		for _, path := range former {
			absolute, _ := filepath.Abs("migrations" + strings.TrimPrefix(path, texts))
			places[absolute] = path
		}
	}
	return places
}
