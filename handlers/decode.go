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

// decoder reads request bodies strictly: no unknown, duplicate or differently
// spelt members, no null, nothing after the value, UTF-8 without lone
// surrogates.
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

// withBody has use look at the body of a request, which it must not keep. The
// error is that of use, or a requestError.
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

// unread says why a body could not be read to its end, if it could not.
func unread(err error) error {
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

// requireJSON refuses what does not say that it is plain JSON in UTF-8.
func requireJSON(header http.Header) error {
	// A second line would be looked at by one program and not by another.
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
		return invalid("The body is empty. Send a JSON object.")
	}
	err := json.Unmarshal(body, value, d.options)
	if err == nil {
		return nil
	}
	return explain(err)
}

// explain says in words of our own what is wrong with a body, and where: the
// decoder's words may quote a bucket key.
func explain(err error) error {
	var own *requestError
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return at(place(syntactic.JSONPointer), "is given twice")
	case errors.As(err, &syntactic):
		return &requestError{
			kind: service.ErrInvalid, pointer: place(syntactic.JSONPointer),
			detail: fmt.Sprintf("The body must be one JSON value in UTF-8, without lone surrogates, "+
				"and nothing after it. It is wrong near byte %d.", syntactic.ByteOffset),
		}
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return unknown(semantic.JSONPointer)
	case errors.As(err, &semantic) && errors.Is(err, errNull):
		return at(place(semantic.JSONPointer), "must not be null")
	case errors.As(err, &semantic):
		return at(place(semantic.JSONPointer), "must be "+inJSON(semantic.GoType))
	}
	return invalid("The body could not be read as JSON.")
}

func at(where, wrong string) error {
	subject := "The body"
	if where != "" {
		subject = "The value at " + where
	}
	return &requestError{kind: service.ErrInvalid, detail: subject + " " + wrong + ".", pointer: where}
}

// place returns as much of pointer as consists of indexes and of members that
// exist, and so is fit to be shown: the rest is of the caller's making.
func place(pointer jsontext.Pointer) string {
	where, index := "", false
	for token := range pointer.Tokens() {
		switch {
		case index:
			index = false
		case token == "checks" || token == "buckets" || token == "reports":
			index = true
		case isMember(token):
			return where + "/" + token
		default:
			return where
		}
		where += "/" + token
	}
	return where
}

// isMember says that some request body has a member of this name that is no
// list.
func isMember(name string) bool {
	switch name {
	case "zone_id", "bucket_key", "attempt_id", "txn_id", "outcome", "reason", // checks, outcomes, releases
		"description", "rate", "window", "mode", "counts", "reserve_ttl", "reset_on_success", // zones
		"lockout", "lockout_factor", "lockout_max", "lockout_decay", "key_kind", "ipv4_prefix", "ipv6_prefix",
		"prefix", "action", "expires_at", "created_by": // overrides
		return true
	}
	return false
}

// unknown refuses a member that does not exist. Its name is shown if it looks
// like one.
func unknown(pointer jsontext.Pointer) error {
	name, where := pointer.LastToken(), place(pointer.Parent())
	odd := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	detail := "A member of the object is not known; names are case-sensitive."
	if len(name) <= maxNameEchoed && !strings.ContainsFunc(name, odd) {
		where += "/" + name
		detail = "The member at " + where + " is not known; names are case-sensitive."
	}
	return &requestError{kind: service.ErrInvalid, detail: detail, pointer: where}
}

// inJSON names what a member of type t is in JSON.
func inJSON(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number, written without fraction or exponent"
	case reflect.Uint64:
		return "a whole number that is not negative, written without fraction or exponent"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}
