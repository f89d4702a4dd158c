package gate

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
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

// query returns the parameters of the address.
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

func (r *Request) client() (string, error) {
	address, err := r.Client()
	if err != nil {
		r.fault = err
		return "", err
	}
	return address.String(), nil
}

// body returns the body.
func (r *Request) body() (text []byte, err error) {
	for _, coding := range r.HTTP.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, errors.New("cannot be read, because the body has a Content-Encoding")
		}
	}
	if !r.hasBody {
		r.text, r.fault = r.Body()
		r.hasBody = true
	}
	return r.text, r.fault
}

// media returns the type of the body, in small letters, or "" if the request names none. It refuses a charset by which
// an application may read other names and values than a gate, such as IBM037 or ISO-2022-JP.
func (r *Request) media() (string, error) {
	given := r.HTTP.Header.Values("Content-Type")
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
