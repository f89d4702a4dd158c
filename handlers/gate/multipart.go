package gate

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// multipartType and multipartHead match multipart/form-data as browsers write it (HTML, section 4.10.21.8).
var (
	multipartType = regexp.MustCompile(`^multipart/form-data; ?boundary=([A-Za-z0-9'_-]{1,70})$`)
	multipartHead = regexp.MustCompile(
		`^Content-Disposition: form-data; name="([^"\\%\x00-\x1f]+)"` +
			`(; filename="[^"\\%\x00-\x1f]*"\r\nContent-Type: [!-~]+)?$`)
)

// multipartFields returns the fields of a form in multipart, with those of files, whose value is left out. ok is false
// if the form is not as browsers write it: programs disagree about quotes and escapes in names, folded lines, further
// parameters and fields, and text before the first part.
func multipartFields(contentType, text string) (fields url.Values, ok bool) {
	boundary := multipartType.FindStringSubmatch(contentType)
	if boundary == nil {
		return nil, false
	}
	line := "\r\n--" + boundary[1]
	parts := strings.Split("\r\n"+text, line)
	last := len(parts) - 1
	if last < 1 || parts[0] != "" || parts[last] != "--\r\n" && parts[last] != "--" {
		return nil, false
	}
	fields = url.Values{}
	for _, part := range parts[1:last] {
		part, isLine := strings.CutPrefix(part, "\r\n")
		head, value, hasValue := strings.Cut(part, "\r\n\r\n")
		names := multipartHead.FindStringSubmatch(head)
		if !isLine || !hasValue || names == nil || strings.Contains(value, "--"+boundary[1]) {
			return nil, false
		}
		isFile := names[2] != ""
		switch {
		case isFile:
			value = ""
		case !utf8.ValidString(value):
			return nil, false
		}
		fields.Add(names[1], value)
	}
	return fields, true
}
