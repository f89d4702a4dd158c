package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/handlers/problem"
)

// Checks are the most frequent requests, so their bodies are read token by token: the JSON library would look at the
// type of each member, and needs three times as long. Decoder.Decode reads all other bodies.

// tokenReader is kept for the next body.
type tokenReader struct {
	jsontext.Decoder
	source bytes.Buffer // a body, which the Decoder does not copy
}

// readTokens returns the value that read makes of a body, which must have one value and nothing after it. Errors are as
// those of Decode.
func readTokens[T any](d *Decoder, body []byte, read func(in *jsontext.Decoder) (T, error)) (value T, err error) {
	r, ok := d.tokens.Get().(*tokenReader)
	if !ok {
		r = new(tokenReader)
	}
	r.source = *bytes.NewBuffer(body)
	r.Reset(&r.source)
	value, err = read(&r.Decoder)
	rest := body[min(r.InputOffset(), int64(len(body))):]
	r.source = bytes.Buffer{}
	r.Reset(&r.source) // keeps nothing of body
	d.tokens.Put(r)
	switch rest = bytes.TrimLeft(rest, " \t\r\n"); {
	case len(body) == 0:
		return value, emptyBody()
	case errors.Is(err, io.EOF):
		return value, explained(&jsontext.SyntacticError{ByteOffset: int64(len(body)), Err: io.ErrUnexpectedEOF})
	case err != nil:
		return value, explained(err)
	case len(rest) > 0:
		return value, explained(
			&jsontext.SyntacticError{ByteOffset: int64(len(body) - len(rest)), Err: errors.New("another value")})
	}
	return value, nil
}

// ReadObject calls member for each member of an object, to read its value.
func ReadObject(in *jsontext.Decoder, member func(name jsontext.Token) error) error {
	if in.PeekKind() != '{' {
		_, err := readValue(in, '{', "an object")
		return err
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() != '}' {
		name, err := in.ReadToken()
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// readEach calls element to read each element of an array. It does not read a value of another type.
func readEach(in *jsontext.Decoder, element func() error) error {
	switch in.PeekKind() {
	case '[', 0: // 0 is no JSON
		if _, err := in.ReadToken(); err != nil {
			return err
		}
	case 'n':
		return refuseNull(in)
	default:
		return problem.InvalidAt(knownPart(in.StackPointer()), "must be an array")
	}
	for in.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// readValue reads a value that must be of a kind.
func readValue(in *jsontext.Decoder, kind jsontext.Kind, wanted string) (jsontext.Value, error) {
	value, err := in.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case value.Kind() == 'n':
		return nil, refuseNull(in)
	case value.Kind() != kind:
		return nil, problem.InvalidAt(knownPart(in.StackPointer()), "must be "+wanted)
	}
	return value, nil
}

func refuseNull(in *jsontext.Decoder) error {
	return problem.InvalidAt(knownPart(in.StackPointer()), "must not be null")
}

func readText(in *jsontext.Decoder) (string, error) {
	value, err := readValue(in, '"', aString)
	if err != nil {
		return "", err
	}
	if text := value[1 : len(value)-1]; bytes.IndexByte(text, '\\') < 0 {
		return string(text), nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err
}

func readWhole(in *jsontext.Decoder) (int64, error) {
	value, err := readValue(in, '0', aWholeNumber)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, problem.InvalidAt(knownPart(in.StackPointer()), "must be "+aWholeNumber)
	}
	return n, nil
}

// ReadList decodes an array of at most most elements. It stops at the first element
// beyond them, so that a body of many empty ones costs no memory. field is the name of
// the array.
func ReadList[T any](in *jsontext.Decoder, field string, most int) (list []T, err error) {
	err = readEach(in, func() error {
		if len(list) == most {
			return WrongLength(field, most)
		}
		var element T
		err := json.UnmarshalDecode(in, &element)
		list = append(list, element)
		return err
	})
	return list, err
}

// WrongLength refuses a list of the member field that is empty or has more than most elements.
func WrongLength(field string, most int) error {
	return problem.InvalidField(field, fmt.Sprintf("%s must hold 1 to %d elements.", field, most))
}
