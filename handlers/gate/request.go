package gate

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// MaxBody is the longest body that a gate reads, in bytes.
const MaxBody = 64 << 10

// Request is a request of a gateway. It is read no further than its gate wants.
type Request struct {
	HTTP *http.Request // its body is not read
	// Client returns the address that the request comes from.
	Client func() (netip.Addr, error)
	// Body returns the whole body, which has at most MaxBody bytes. It is called at most once.
	Body func() ([]byte, error)

	parameters url.Values     // nil: not read yet
	fields     url.Values     // of the form; nil: not read yet
	value      jsontext.Value // of the JSON body; nil: not read yet
	text       []byte         // the body, once hasBody
	hasBody    bool
	fault      error // of Client or Body
}

func (r *Request) query() (url.Values, error) {
	if r.parameters != nil {
		return r.parameters, nil
	}
	parameters, err := url.ParseQuery(r.HTTP.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: the query of the address is malformed", service.ErrInvalid)
	}
	r.parameters = parameters
	return parameters, nil
}

// PlainName is the name of a header as programs know it that make variables of headers: CGI, WSGI, PHP. X_User is
// X-User there.
func PlainName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		}
		return '-'
	}, name)
}

// header returns the lines of a header that decides. It refuses another spelling of its name beside it: some
// applications read that.
func (r *Request) header(name string) ([]string, error) {
	for other := range r.HTTP.Header {
		if other != name && len(other) == len(name) && PlainName(other) == PlainName(name) {
			return nil, fmt.Errorf("the header %s %w", name, errOtherName)
		}
	}
	return r.HTTP.Header[name], nil
}

func (r *Request) loneHeader(name string) (string, error) {
	lines, err := r.header(name)
	if err != nil {
		return "", errOtherName
	}
	return lone(lines)
}

func (r *Request) client() (string, error) {
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} {
		if _, err := r.header(name); err != nil {
			return "", wrong("%v", err)
		}
	}
	address, err := r.Client()
	if err != nil {
		r.fault = err
		return "", err
	}
	return address.String(), nil
}

func (r *Request) body() (text []byte, err error) {
	codings, err := r.header("Content-Encoding")
	if err != nil {
		return nil, err
	}
	for _, coding := range codings {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, errors.New("cannot be read, because the body has a Content-Encoding")
		}
	}
	if !r.hasBody {
		r.text, r.fault = r.Body()
		r.hasBody = true
	}
	if r.fault != nil {
		return nil, r.fault
	}
	return r.text, r.isWhole()
}

// isWhole returns an error if the gateway has sent a part of the body alone: the application reads all of it.
func (r *Request) isWhole() error {
	for name, lines := range r.HTTP.Header {
		switch PlainName(name) {
		case "x-envoy-auth-partial-body":
			if !slices.Equal(lines, []string{"false"}) {
				return errors.New(
					"cannot be read, because only a part of the body is there: leave out allow_partial_message in with_request_body")
			}
		case "content-length":
			if n, err := strconv.Atoi(strings.Join(lines, ",")); err != nil || n != len(r.text) {
				return errors.New(
					"cannot be read, because the body has another length than its Content-Length: let the gateway send all of it")
			}
		}
	}
	return nil
}

// media returns the type of the body, in small letters, or "" if the request names none. It refuses a charset by which
// an application may read other names and values than a gate, such as IBM037 or ISO-2022-JP.
func (r *Request) media() (string, error) {
	given, err := r.header("Content-Type")
	if err != nil {
		return "", err
	}
	if len(given) == 0 || len(given) == 1 && given[0] == "" {
		return "", nil
	}
	media, parameters, err := mime.ParseMediaType(given[0])
	if err != nil || len(given) > 1 {
		return "", errors.New("cannot be read, because the Content-Type is malformed, or there are several")
	}
	switch charset := strings.ToLower(parameters["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii", "iso-8859-1":
		return media, nil
	}
	return "", errors.New("cannot be read, because the charset of the Content-Type is not UTF-8")
}

// isForm and isJSON report that a type is one of forms, or of JSON. A body of neither is read as the gate wants it.
func isForm(media string) bool { return media == "application/x-www-form-urlencoded" }

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
