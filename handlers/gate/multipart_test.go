package gate_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"velocityd/service"
)

func TestMultipartFormIsReadAsBrowsersWriteIt(t *testing.T) {
	t.Parallel()
	const ofParts, end = "multipart/form-data; boundary=x", "--x--\r\n"
	const file = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b.png\"\r\nContent-Type: " +
		"image/png\r\n\r\n\xff\r\n"
	part := func(name, value string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	alice := part("user", "alice")
	for name, c := range map[string]struct{ body, media, text string }{
		"a field":          {alice + end, ofParts, ""},
		"a field, no line": {strings.TrimSuffix(alice+end, "\r\n"), ofParts, ""},
		"beside a file":    {file + alice + end, ofParts, ""},
		"twice":            {alice + part("user", "bob") + end, ofParts, "several times"},
		"as a file, too":   {strings.Replace(file, "\"a\"", "\"user\"", 1) + alice + end, ofParts, "several times"},
		"another case":     {alice + part("User", "bob") + end, ofParts, "another case"},
		"no end":           {alice, ofParts, "multipart"},
		"a preamble":       {"x\r\n" + alice + end, ofParts, "multipart"},
		"an epilogue":      {alice + end + "x", ofParts, "multipart"},
		"bare names":       {strings.ReplaceAll(alice, "\"", "") + end, ofParts, "multipart"},
		"bare lines":       {strings.ReplaceAll(alice+end, "\r", ""), ofParts, "multipart"},
		"another field":    {"--x\r\nX-Y: z\r\n" + alice[len("--x\r\n"):] + end, ofParts, "multipart"},
		"a hidden end":     {part("user", "a--x--b") + end, ofParts, "multipart"},
		"a padded end":     {strings.Replace(alice, "--x\r", "--x \r", 1) + end, ofParts, "multipart"},
		"no UTF-8":         {part("b", "\xff") + alice + end, ofParts, "multipart"},
		"two boundaries":   {alice + end, ofParts + "; boundary=y", "malformed"},
		"a charset":        {alice + end, ofParts + "; charset=utf-8", "multipart"},
		"no form":          {alice + end, "multipart/mixed; boundary=x", "multipart"},
	} {
		r := request(t, http.MethodPost, "/", c.body, "Content-Type", c.media)
		asked, err := only(t, "buckets: [{zone: 1, key: {form: user}}]").Question(r, false)
		switch {
		case c.text == "" && (err != nil || asked.Check.Buckets[0].Key != "alice"):
			t.Errorf("%s: %+v (%v)", name, asked, err)
		case c.text != "" && (!errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%s: got %v, want an error with %q", name, err, c.text)
		}
	}
}
