package handlers

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/service"
)

const (
	maxBody       = 1 << 20
	maxNameEchoed = 32
)

var errNull = errors.New("null")

// decoder reads request bodies strictly. It refuses unknown members, duplicate
// members, names in another case, null, anything after the value, and text that is
// not UTF-8 or has lone surrogates.
type decoder struct {
	options json.Options
}

func newDecoder() decoder {
	noNull := json.UnmarshalFromFunc(func(in *jsontext.Decoder, _ any) error {
		if in.PeekKind() == 'n' {
			return errNull
		}
		return errors.ErrUnsupported // decode as usual
	})
	return decoder{options: json.JoinOptions(
		json.RejectUnknownMembers(true), json.WithUnmarshalers(noNull))}
}

// read decodes the body of a request into value, or returns a requestError.
func (s *server) read(x *exchange, value any) error {
	return s.withBody(x, func(body []byte) error { return s.decoder.decode(body, value) })
}

// readTokens has read take the value of the body of a request.
func (s *server) readTokens(x *exchange, read func(in *jsontext.Decoder) error) error {
	return s.withBody(x, func(body []byte) error { return s.tokens.read(body, read) })
}

// withBody reads the body of a request and calls use with it. use must not keep it.
// The error is that of use, or a requestError.
func (s *server) withBody(x *exchange, use func(body []byte) error) error {
	if err := requireJSON(x.Request().Header); err != nil {
		return err
	}
	body := s.buffers.take()
	defer s.buffers.giveBack(body)
	if err := s.readBody(x, body); err != nil {
		return err
	}
	return use(body.Bytes())
}

// bodyError turns an error of reading a body into one for the caller; nil stays nil.
func bodyError(err error) error {
	var limit *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", api.ErrTooSlow, err)
	}
	return invalid("The body ended before it was complete.")
}

func tooLarge() error {
	return &requestError{kind: api.ErrTooLarge, detail: fmt.Sprintf("The body must be at most %d bytes.", maxBody)}
}

// requireJSON refuses a body that its header does not announce as plain JSON in
// UTF-8.
func requireJSON(header http.Header) error {
	// Every line of the header counts: programs differ in which of several they read.
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &requestError{kind: api.ErrMediaType, detail: "The body must be sent without Content-Encoding."}
		}
	}
	given := header.Get("Content-Type")
	if len(header["Content-Type"]) > 1 {
		return &requestError{kind: api.ErrMediaType, detail: "Send one header Content-Type: application/json."}
	}
	if given == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset, named := params["charset"]
	if err != nil || media != "application/json" || named && !strings.EqualFold(charset, "utf-8") ||
		len(params) > 1 || len(params) == 1 && !named {
		return &requestError{kind: api.ErrMediaType, detail: "Send the header Content-Type: application/json."}
	}
	return nil
}

func (d decoder) decode(body []byte, value any) error {
	if len(body) == 0 {
		return emptyBody()
	}
	err := json.Unmarshal(body, value, d.options)
	if err == nil {
		return nil
	}
	return explained(err)
}

func emptyBody() error { return invalid("The body is empty. Send a JSON object.") }

// explained returns an error that says what is wrong with a body, and where. It does
// not repeat the decoder's text, which may quote a bucket key.
func explained(err error) error {
	var own *requestError
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return invalidAt(knownPart(syntactic.JSONPointer), "is given twice")
	case errors.As(err, &syntactic):
		return &requestError{
			kind: service.ErrInvalid, pointer: knownPart(syntactic.JSONPointer),
			detail: fmt.Sprintf("The body must be one JSON value in UTF-8, without lone surrogates, "+
				"and nothing after it. It is wrong near byte %d.", syntactic.ByteOffset),
		}
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return unknownMember(semantic.JSONPointer)
	case errors.As(err, &semantic) && errors.Is(err, errNull):
		return invalidAt(knownPart(semantic.JSONPointer), "must not be null")
	case errors.As(err, &semantic):
		return invalidAt(knownPart(semantic.JSONPointer), "must be "+jsonTypeOf(semantic.GoType))
	}
	return invalid("The body could not be read as JSON.")
}

// invalidAt refuses the value that pointer points at. complaint is the rest of the
// sentence, such as "must not be null".
func invalidAt(pointer, complaint string) error {
	subject := "The body"
	if pointer != "" {
		subject = "The value at " + pointer
	}
	return &requestError{kind: service.ErrInvalid, detail: subject + " " + complaint + ".", pointer: pointer}
}

// knownPart returns the beginning of pointer that consists of indexes and of
// members that exist. The rest is text of the caller's, which is not repeated.
func knownPart(pointer jsontext.Pointer) string {
	known, index := "", false
	for token := range pointer.Tokens() {
		switch {
		case index:
			index = false
		case token == "checks" || token == "buckets" || token == "reports":
			index = true
		case isMember(token):
			return known + "/" + token
		default:
			return known
		}
		known += "/" + token
	}
	return known
}

// isMember reports whether a request body has a member of this name that is not a
// list.
func isMember(name string) bool {
	switch name {
	case "zone_id", "bucket_key", "attempt_id", "secret_hash", "txn_id", "outcome", "reason", // checks, outcomes, releases
		"prefix", "action", "expires_at", "created_by": // overrides
		return true
	}
	_, isSetting := service.SettingNamed(name)
	return isSetting
}

// unknownMember refuses a member that does not exist. It shows the name if that is
// short and has only letters, digits and underscores.
func unknownMember(pointer jsontext.Pointer) error {
	name, shown := pointer.LastToken(), knownPart(pointer.Parent())
	notNameChar := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	detail := "A member of the object is not known; names are case-sensitive."
	if len(name) <= maxNameEchoed && !strings.ContainsFunc(name, notNameChar) {
		shown += "/" + name
		detail = "The member at " + shown + " is not known; names are case-sensitive."
	}
	return &requestError{kind: service.ErrInvalid, detail: detail, pointer: shown}
}

const aString, aWholeNumber = "a string", "a whole number, written without fraction or exponent"

// jsonTypeOf says what a member of type t must be in JSON.
func jsonTypeOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return aString
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return aWholeNumber
	case reflect.Uint64: // an api.ID
		return "an id in decimal digits without sign, fraction or exponent, 18446744073709551615 at most, as a string or " +
			"as a number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}
