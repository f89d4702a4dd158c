package gate

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is a kind of place in a request.
type Kind string

// The kinds of places.
const (
	Header Kind = "header" // a header field
	Query  Kind = "query"  // a parameter of the address
	Form   Kind = "form"   // a field of a form in the body
	JSON   Kind = "json"   // a member of a JSON body, by its pointer (RFC 6901)
	Basic  Kind = "basic"  // the user of Authorization: Basic
	Client Kind = "client" // the address that the request comes from
)

// kinds returns all kinds of places, by their names in the file.
func kinds() []string {
	return []string{string(Header), string(Query), string(Form), string(JSON), string(Basic), string(Client)}
}

// Source is a place in a request. The zero value is none.
type Source struct {
	Kind Kind
	Name string // of the header, parameter or field; the pointer; "user" or "address"
}

// NewSource returns the place of a kind with this name. The error says which names the kind has.
func NewSource(kind Kind, name string) (Source, error) {
	switch kind {
	case Header:
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !isName(name) || name == "Host" { // net/http keeps Host apart
			return Source{}, errors.New("header must be 1 to 64 letters, digits, '-' and '_', such as X-User, and not Host")
		}
	case JSON:
		if !jsontext.Pointer(name).IsValid() || name == "" {
			return Source{}, errors.New("json must be a JSON pointer, such as /username")
		}
	case Basic:
		if name != "user" {
			return Source{}, errors.New("basic can only be user")
		}
	case Client:
		if name != "address" {
			return Source{}, errors.New("client can only be address")
		}
	case Query, Form:
	}
	return Source{kind, name}, nil
}

// String returns the name of the place in a sentence.
func (s Source) String() string {
	switch s.Kind {
	case Header:
		return "the header " + s.Name
	case Query:
		return "the query parameter " + s.Name
	case Form:
		return "the form field " + s.Name
	case JSON:
		return "the JSON member " + s.Name
	case Basic:
		return "the user of Authorization: Basic"
	case Client:
		return "the client's address"
	}
	return "nothing"
}

// errMissing says that a request has nothing at a place, or an empty text.
var errMissing = errors.New("is missing or empty")

// errOtherName says that a header is there by another name, too.
var errOtherName = errors.New("is given in another spelling")

// read returns the text at the place in a request, which is not empty. The error wraps errMissing if there is none.
// It is another one if there may be several, because the application behind the gateway may read another one of
// them than this function. No error repeats the text.
func (s Source) read(r *Request) (text string, err error) {
	switch s.Kind {
	case Header:
		text, err = r.loneHeader(s.Name)
	case Query:
		text, err = s.readQuery(r)
	case Form:
		text, err = s.readForm(r)
	case JSON:
		text, err = s.readJSON(r)
	case Basic:
		text, err = r.basicUser()
	case Client:
		return r.client()
	}
	if err == nil && text == "" {
		err = errMissing
	}
	if err != nil {
		return "", fmt.Errorf("%v %w", s, err)
	}
	return text, nil
}

func lone(texts []string) (string, error) {
	switch len(texts) {
	case 0:
		return "", errMissing
	case 1:
		return texts[0], nil
	}
	return "", errors.New("is given several times")
}

func (s Source) readQuery(r *Request) (string, error) {
	query, err := r.query()
	if err != nil {
		return "", errors.New("cannot be read, because the query is malformed")
	}
	return loneOf(query, s.Name)
}

// loneOf returns the one value of a name. It refuses another spelling of the name, by which some programs find the
// value, too.
func loneOf(values map[string][]string, name string) (string, error) {
	for other := range values {
		if other != name && mayBe(other, name) {
			return "", errors.New("is given in another case or spelling")
		}
	}
	return lone(values[name])
}

// mayBe reports whether some program finds a value by a name, though it is given by another one: many do so in another
// case; PHP leaves out space in front and all from a zero byte on, makes '_' of characters that its variables cannot
// have, and makes an array of user[x], as others do.
func mayBe(other, name string) bool {
	other, _, _ = strings.Cut(other, "\x00")
	other = strings.TrimLeft(other, " ")
	array, _, _ := strings.Cut(other, "[")
	variable := strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace
	return strings.EqualFold(variable(other), variable(name)) || strings.EqualFold(array, name)
}

// basicUser returns the user in the credentials of the scheme Basic (RFC 7617). Other schemes have none.
func (r *Request) basicUser() (string, error) {
	credentials, err := r.loneHeader("Authorization")
	if err != nil {
		return "", err
	}
	scheme, text, _ := strings.Cut(credentials, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", errMissing
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	user, _, isPair := strings.Cut(string(decoded), ":")
	if err != nil || !isPair {
		return "", errors.New("is malformed")
	}
	return user, nil
}
