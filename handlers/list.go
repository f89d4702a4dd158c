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
func readList[T any](in *jsontext.Decoder, field string, most int) (list []T, err error) {
	err = readEach(in, func() error {
		if len(list) == most {
			return tooManyOrFew(field, most)
		}
		var element T
		err := json.UnmarshalDecode(in, &element)
		list = append(list, element)
		return err
	})
	return list, err
}

func tooManyOrFew(field string, most int) error {
	return &requestError{
		kind: service.ErrInvalid, pointer: "/" + field,
		detail: fmt.Sprintf("%s must hold 1 to %d elements.", field, most),
	}
}
