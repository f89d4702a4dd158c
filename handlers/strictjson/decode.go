// Package strictjson reads the bodies of requests. It refuses all but strict JSON, and owns the texts that name the
// wrong part of a body. It must not know routes, Echo or stores.
package strictjson

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/handlers/problem"
	"velocityd/service"
)

// maxNameEchoed is how long the name of an unknown member may be that an error repeats, in bytes.
const maxNameEchoed = 32

var errNull = errors.New("null")

// Decoder reads request bodies strictly. It refuses unknown members, duplicate
// members, names in another case, null, anything after the value, and text that is
// not UTF-8 or has lone surrogates.
type Decoder struct {
	options json.Options
	tokens  sync.Pool // of readers of tokens
}

// New returns a Decoder. It may be used by many goroutines at once.
func New() *Decoder {
	noNull := json.UnmarshalFromFunc(func(in *jsontext.Decoder, _ any) error {
		if in.PeekKind() == 'n' {
			return errNull
		}
		return errors.ErrUnsupported // decode as usual
	})
	return &Decoder{options: json.JoinOptions(
		json.RejectUnknownMembers(true), json.WithUnmarshalers(noNull))}
}

// Decode reads a body into value. The error is of package problem.
func (d *Decoder) Decode(body []byte, value any) error {
	if len(body) == 0 {
		return emptyBody()
	}
	err := json.Unmarshal(body, value, d.options)
	if err == nil {
		return nil
	}
	return explained(err)
}

func emptyBody() error { return problem.Invalid("The body is empty. Send a JSON object.") }

// explained returns an error that names the fault of a body, and its place. It does not repeat the decoder's text,
// which may quote a bucket key.
func explained(err error) error {
	var own *problem.Error
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return problem.InvalidAt(knownPart(syntactic.JSONPointer), "is given twice")
	case errors.As(err, &syntactic):
		return problem.NewAt(service.ErrInvalid, knownPart(syntactic.JSONPointer),
			fmt.Sprintf("The body must be one JSON value in UTF-8, without lone surrogates, "+
				"and nothing after it. It is wrong near byte %d.", syntactic.ByteOffset))
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return UnknownMember(semantic.JSONPointer)
	case errors.As(err, &semantic) && errors.Is(err, errNull):
		return problem.InvalidAt(knownPart(semantic.JSONPointer), "must not be null")
	case errors.As(err, &semantic):
		return problem.InvalidAt(knownPart(semantic.JSONPointer), "must be "+jsonTypeOf(semantic.GoType))
	}
	return problem.Invalid("The body could not be read as JSON.")
}

// IsKnown reports whether a pointer consists of indexes and of members that exist. Other pointers hold text of the
// caller.
func IsKnown(pointer string) bool { return knownPart(jsontext.Pointer(pointer)) == pointer }

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

// UnknownMember refuses a member that does not exist. It shows the name if that is
// short and has only letters, digits and underscores.
func UnknownMember(pointer jsontext.Pointer) error {
	name, shown := pointer.LastToken(), knownPart(pointer.Parent())
	notNameChar := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	detail := "A member of the object is not known; names are case-sensitive."
	if len(name) <= maxNameEchoed && !strings.ContainsFunc(name, notNameChar) {
		shown += "/" + name
		detail = "The member at " + shown + " is not known; names are case-sensitive."
	}
	return problem.NewAt(service.ErrInvalid, shown, detail)
}

const aString, aWholeNumber = "a string", "a whole number, written without fraction or exponent"

// jsonTypeOf names the type in JSON of a member of type t.
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
