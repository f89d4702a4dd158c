package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestOverlongLinesAloneAreEmpty(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxLine)
	input := "one\n" + long + "\n\r\ntwo\r\n" + long + "\nlast"
	for name, log := range map[string]io.Reader{
		"text":                iotest.OneByteReader(strings.NewReader(input)),
		"gzip":                iotest.OneByteReader(bytes.NewReader(zipped(t, input))),
		"gzip of two members": bytes.NewReader(append(zipped(t, input[:20]), zipped(t, input[20:])...)),
	} {
		reader, err := unpacked(log)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"one\n", "", "\r\n", "two\r\n", "", "last"} {
			line, err := nextLine(reader)
			if err != nil || line != want {
				t.Fatalf("%s, line %d: got %.20q (%v), want %q", name, i, line, err, want)
			}
		}
		if _, err := nextLine(reader); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func TestABrokenFileIsTold(t *testing.T) {
	t.Parallel()
	half := zipped(t, strings.Repeat(stamp, 100))
	for name, log := range map[string]io.Reader{
		"text": iotest.ErrReader(io.ErrUnexpectedEOF), "half a gzip": bytes.NewReader(half[:len(half)-9]),
		"the first bytes of a gzip": bytes.NewReader(half[:5]),
	} {
		var err error
		for _, fault := range linesOf(t.Context(), log) {
			err = fault
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for line, err := range linesOf(t.Context(), strings.NewReader("")) {
		t.Errorf("an empty file: %q, %v", line, err)
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
