package shell

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of at most some bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // has only been read
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return text, err
}
