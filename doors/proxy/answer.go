package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// answer is that of an application.
type answer struct {
	asked  *url.URL // the path is as the client wrote it
	status int
	header http.Header
	body   []byte // its beginning
}

// evidence says that by an answer a thing is so, is not so, or both: browsers, and programs behind one another, may
// read it in several ways. If both are false, the answer cannot be read.
type evidence struct{ yes, no bool }

func certain(is bool) evidence { return evidence{is, !is} }

func (s evidence) or(other evidence) evidence { return evidence{s.yes || other.yes, s.no || other.no} }

// leadsTo reports whether the browser goes to an address whose path begins with prefix. Some applications know no case
// of letters.
func (a answer) leadsTo(prefix string) (s evidence) {
	values := a.header["Location"]
	if len(values) == 0 {
		if a.status/100 != http.StatusMultipleChoices/100 {
			return certain(false)
		}
		values = []string{""} // the browser stays
	}
	prefix = decode(prefix)
	for _, value := range values {
		for _, place := range a.places(value) {
			is := strings.HasPrefix(place, prefix)
			mayBe := len(place) >= len(prefix) && strings.EqualFold(place[:len(prefix)], prefix)
			s = s.or(evidence{mayBe, !is})
		}
	}
	return s
}

// scheme matches how an address with a scheme begins.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// places returns the paths, with their queries, to which a Location may lead (WHATWG URL, section 4.4; RFC 3986,
// section 5). There is none if it leads to no path. A relative one depends on the path that was asked for, which has
// readings, too.
func (a answer) places(location string) (list []string) {
	location = strings.TrimFunc(location, func(r rune) bool { return r <= ' ' })
	location = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(location)
	path, rest := location, ""
	if i := strings.IndexAny(location, "?#"); i >= 0 {
		path, rest = location[:i], location[i:]
	}
	path = strings.ReplaceAll(path, `\`, "/")
	named := scheme.FindString(path)
	path = path[len(named):]
	switch isWeb := strings.EqualFold(named, "http:") || strings.EqualFold(named, "https:"); {
	case strings.HasPrefix(path, "//"):
		return spellings(pathBehindHost(path), rest)
	case isWeb: // of the page's scheme it is relative, of another one it begins with a host
		list = spellings(pathBehindHost(path), rest)
	case named != "" && !strings.HasPrefix(path, "/"):
		return nil
	}
	if strings.HasPrefix(path, "/") {
		return append(list, spellings(path, rest)...)
	}
	for _, base := range a.bases() {
		if path != "" {
			base = base[:strings.LastIndexByte(base, '/')+1] + path
		}
		list = append(list, spellings(base, rest)...)
	}
	return list
}

// pathBehindHost returns the path of //host/path, however many slashes are in front of the host.
func pathBehindHost(text string) string {
	_, path, _ := strings.Cut(strings.TrimLeft(text, "/"), "/")
	return "/" + path
}

// bases returns the paths that programs may read in that of the request.
func (a answer) bases() []string {
	list := []string{"/" + strings.TrimPrefix(a.asked.EscapedPath(), "/")}
	for _, parts := range readings(a.asked) {
		if path := "/" + strings.Join(parts, "/"); !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// spellings returns the readings of an absolute path, decoded and without dot segments, each with rest behind it.
func spellings(path, rest string) (list []string) {
	for range mostDecoded {
		decoded := decode(path)
		rest = decode(rest)
		for _, text := range []string{dotless(decoded), cleaned(decoded)} {
			if text += rest; !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
		if decoded == path {
			break
		}
		path = decoded
	}
	return list
}

// dotless returns a path without dot segments. A browser changes nothing else.
func dotless(path string) string {
	parts := strings.Split(path, "/")[1:]
	if last := parts[len(parts)-1]; last == "." || last == ".." {
		parts = append(parts, "")
	}
	return "/" + strings.Join(resolved(parts), "/")
}

// cleaned returns a path without the parts that some programs leave out.
func cleaned(path string) string {
	text := "/" + strings.Join(resolved(partsOf(path)), "/")
	if strings.HasSuffix(path, "/") && text != "/" {
		text += "/"
	}
	return text
}

// sets reports whether the browser has a cookie of this name by the answer. Of one name and path, the last field
// counts.
func (a answer) sets(name string) evidence {
	kept := map[string]evidence{}
	for _, field := range a.header["Set-Cookie"] {
		pair, rest, _ := strings.Cut(field, ";")
		given, value, isPair := strings.Cut(pair, "=")
		if given = strings.Trim(given, " \t"); !isPair || !strings.EqualFold(given, name) {
			continue
		}
		path, is := a.cookie(given, strings.Trim(value, " \t\""), rest)
		if given != name {
			is = is.or(kept[path]).or(certain(false))
		}
		kept[path] = is
	}
	all := certain(false)
	for _, is := range kept {
		if is == certain(true) {
			return is
		}
		all.yes = all.yes || is.yes
	}
	return all
}

// mostOfCookie is how long a cookie may be, in bytes; browsers leave out longer ones.
const mostOfCookie = 4096

// cookie reads one field: its path, and whether the cookie is there afterwards (RFC 6265bis, section 5).
func (a answer) cookie(name, value, attributes string) (path string, is evidence) {
	path = a.asked.EscapedPath()
	path = path[:max(1, strings.LastIndexByte(path, '/'))]
	c, err := http.ParseSetCookie("x=y;" + attributes) // a browser keeps more names and values than Go
	if err != nil {
		return path, evidence{yes: true, no: true}
	}
	if strings.HasPrefix(c.Path, "/") {
		path = c.Path
	}
	is = certain(true)
	switch {
	case c.MaxAge != 0:
		is = certain(c.MaxAge > 0)
	case c.RawExpires != "":
		until := c.Expires
		if until.IsZero() {
			until, err = http.ParseTime(c.RawExpires) // C's date, too
		}
		is = evidence{err != nil || until.After(time.Now()), err != nil || !until.After(time.Now())}
	}
	lower := strings.ToLower(name)
	isKept := (!strings.HasPrefix(lower, "__secure-") || c.Secure) &&
		(!strings.HasPrefix(lower, "__host-") || c.Secure && c.Domain == "" && c.Path == "/") &&
		len(name)+len(value) <= mostOfCookie &&
		!strings.ContainsFunc(name+value, func(r rune) bool { return r < ' ' && r != '\t' || r == '\x7f' })
	if value == "" || strings.EqualFold(value, "deleted") {
		return path, certain(false)
	}
	is.no = is.no || !isKept
	return path, is
}

// isReadable reports whether the text of the body is that of its bytes.
func (a answer) isReadable() bool {
	coding := strings.Join(a.header["Content-Encoding"], ",")
	media := strings.ToLower(strings.Join(a.header["Content-Type"], ","))
	return (coding == "" || strings.EqualFold(coding, "identity")) && !strings.Contains(media, "utf-16")
}

// has reports whether the body has a member of JSON, as it is written there but for the quotes of a string, and not
// null. An empty want is any.
func (a answer) has(pointer jsontext.Pointer, want string) evidence {
	if !jsontext.Value(a.body).IsValid() { // each name once, and nothing behind the value
		return evidence{}
	}
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	var part any
	if decoder.Decode(&part) != nil {
		return evidence{}
	}
	for name := range pointer.Tokens() {
		switch of := part.(type) {
		case map[string]any:
			part = of[name]
		case []any:
			i, err := strconv.ParseUint(name, 10, 16)
			if err != nil || i >= uint64(len(of)) {
				return certain(false)
			}
			part = of[i]
		default:
			return certain(false)
		}
	}
	return certain(part != nil && (want == "" || fmt.Sprint(part) == want))
}
