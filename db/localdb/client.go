package localdb

import (
	"os/exec"
	"path/filepath"
)

// Client is how the command-line client that fits the server is called: an absolute path if it lies in the folder of the server's
// own program, else a bare name that PATH knows. Where neither has one it is the name that the engine's client usually has, and
// found is false. Client runs nothing.
func (s *Server) Client() (name string, found bool) { return s.binary.client(exec.LookPath) }

func (b Binary) client(lookPath func(string) (string, error)) (name string, found bool) {
	names := []string{"mysql", "mariadb"}
	if b.Engine == MariaDB {
		names = []string{"mariadb", "mysql"}
	}
	for _, name := range names {
		// One that PATH finds at the same place is named as the user would.
		onPath, err := lookPath(name)
		beside := filepath.Join(filepath.Dir(b.Path), name)
		if isExecutable(beside) && (err != nil || onPath != beside) {
			return beside, true
		}
		if err == nil {
			return name, true
		}
	}
	return names[0], false
}
