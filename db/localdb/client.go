package localdb

import (
	"os/exec"
	"path/filepath"
)

// Client returns the name of a command-line client for the server: an absolute path if
// it is in the folder of the server's program, or a name that is on PATH. If there is
// neither, it returns the usual name of the engine's client, and found is false. Client
// runs nothing.
func (s *Server) Client() (name string, found bool) { return s.binary.client(exec.LookPath) }

func (b Binary) client(lookPath func(string) (string, error)) (name string, found bool) {
	names := []string{"mysql", "mariadb"}
	if b.Engine == MariaDB {
		names = []string{"mariadb", "mysql"}
	}
	for _, name := range names {
		// If PATH finds the same file, the bare name is enough.
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
