package handlers

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// readList decodes an array of at most most elements. It stops at the first element
// beyond them, so that a body of many empty ones costs no memory. field is the name of
// the array.
func readList[T any](in *jsontext.Decoder, field string, most int) ([]T, error) {
	if in.PeekKind() != '[' {
		return nil, &json.SemanticError{}
	}
	if _, err := in.ReadToken(); err != nil {
		return nil, err
	}
	var list []T
	for in.PeekKind() != ']' {
		if len(list) == most {
			return nil, tooManyOrFew(field, most)
		}
		var element T
		if err := json.UnmarshalDecode(in, &element); err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	_, err := in.ReadToken()
	return list, err
}

func tooManyOrFew(field string, most int) error {
	return &requestError{
		kind: service.ErrInvalid, pointer: "/" + field,
		detail: fmt.Sprintf("%s must hold 1 to %d elements.", field, most),
	}
}
