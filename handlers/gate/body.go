package gate

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errOtherKind says that the body has nothing at a place, because it says that it is of the other kind.
var errOtherKind = fmt.Errorf("%w: the Content-Type says that the body is of another kind", errMissing)

// form returns the fields of the form in the body. The error wraps errOtherKind if that says it is JSON.
func (r *Request) form() (url.Values, error) {
	if r.fields != nil {
		return r.fields, nil
	}
	media, err := r.media()
	if err != nil {
		return nil, err
	}
	text, err := r.body()
	switch {
	case err != nil:
		return nil, err
	case len(text) > 0 && isJSON(media):
		return nil, errOtherKind
	case strings.HasPrefix(media, "multipart/"):
		var ok bool
		if r.fields, ok = multipartFields(r.HTTP.Header.Get("Content-Type"), string(text)); !ok {
			return nil, errors.New("cannot be read, because the form is sent as multipart, and not in the way of browsers")
		}
		return r.fields, nil
	}
	if r.fields, err = url.ParseQuery(string(text)); err != nil {
		r.fields = nil
		return nil, errors.New("cannot be read, because the form is malformed")
	}
	return r.fields, nil
}

func (s Source) readForm(r *Request) (string, error) {
	fields, err := r.form()
	if err != nil {
		return "", err
	}
	text, err := loneOf(fields, s.Name)
	switch {
	case (err == nil || errors.Is(err, errMissing)) && r.asksInQuery(s.Name):
		return "", errors.New("stands in the query of the address")
	case errors.Is(err, errMissing) && len(fields) == 0:
		return "",
			fmt.Errorf("%w: the request has no form, and some gateways send no body (nginx's auth_request, Caddy)", err)
	}
	return text, err
}

// asksInQuery reports whether the end user's address has a parameter of a name. Some programs prefer it to
// the field of a form. The address is known where the gateway appends it to its own, or sends it in a header.
func (r *Request) asksInQuery(name string) bool {
	queries := []string{r.HTTP.URL.RawQuery}
	for field, uris := range r.HTTP.Header {
		switch PlainName(field) {
		case "x-forwarded-uri", "x-original-uri", "x-original-url", "x-rewrite-url", "x-envoy-original-path":
			for _, uri := range uris {
				_, query, _ := strings.Cut(uri, "?")
				queries = append(queries, query)
			}
		}
	}
	for _, query := range queries {
		parameters, _ := url.ParseQuery(query) // those that can be read
		for other := range parameters {
			if mayBe(other, name) {
				return true
			}
		}
	}
	return false
}

// document returns the JSON value of the body, or nil if there is none. The error wraps errOtherKind if the body says
// it is a form.
func (r *Request) document() (jsontext.Value, error) {
	if r.value != nil {
		return r.value, nil
	}
	media, err := r.media()
	if err != nil {
		return nil, err
	}
	text, err := r.body()
	switch {
	case err != nil || len(text) == 0:
		return nil, err
	case isForm(media):
		return nil, errOtherKind
	}
	if err := json.Unmarshal(text, &r.value); err != nil { // it refuses names that are there twice
		return nil, errors.New("cannot be read, because the body is not JSON in UTF-8 with each name once")
	}
	return r.value, nil
}

func (s Source) readJSON(r *Request) (string, error) {
	part, err := r.document()
	if err != nil {
		return "", err
	}
	if part == nil {
		return "",
			fmt.Errorf("%w: the request has no JSON, and some gateways send no body (nginx's auth_request, Caddy)", errMissing)
	}
	for name := range jsontext.Pointer(s.Name).Tokens() {
		if part, err = child(part, name); err != nil {
			return "", err
		}
	}
	return scalar(part)
}

// child returns the member of an object, or the element of an array.
func child(of jsontext.Value, name string) (jsontext.Value, error) {
	switch of.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(of, &members); err != nil {
			return nil, errMissing
		}
		for other := range members {
			if other != name && strings.EqualFold(other, name) {
				return nil, errors.New("is given in another case")
			}
		}
		if part, ok := members[name]; ok {
			return part, nil
		}
	case '[':
		var elements []jsontext.Value
		i, err := strconv.ParseUint(name, 10, 16)
		if err == nil && json.Unmarshal(of, &elements) == nil && i < uint64(len(elements)) {
			return elements[i], nil
		}
	}
	return nil, errMissing
}

// scalar returns a string, or a whole number as it is written. There are no two ways to write a whole number in JSON
// without a sign, a fraction or an exponent.
func scalar(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case 'n':
		return "", errMissing
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '0':
		if text := string(value); !strings.ContainsAny(text, "-+.eE") {
			return text, nil
		}
	}
	return "", errors.New("must be a string or a whole number")
}
