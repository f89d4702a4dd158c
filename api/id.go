package api

import (
	"errors"
	"strconv"
)

// ErrNoID says that a JSON value is no id.
var ErrNoID = errors.New("no id")

// ID is an id in a request, of a txn, a check or an override: 1 to 18446744073709551615, or 0 if there is none. In JSON
// it is a string, such as "981". JavaScript and many other readers of JSON make a number a float of 64 bits, which
// changes an id above 2^53 to another one, and so names another txn. The mapping of protobuf to JSON writes its
// integers of 64 bits likewise.
//
// The ids of zones and of access tokens are far smaller, and stay numbers.
type ID uint64

// MarshalJSON implements json.Marshaler. It never fails.
func (id ID) MarshalJSON() ([]byte, error) {
	return append(strconv.AppendUint([]byte{'"'}, uint64(id), 10), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It accepts decimal digits without sign, leading zero, fraction,
// exponent or escapes, as a string or as a number. Its error is ErrNoID, and does not quote the value.
func (id *ID) UnmarshalJSON(text []byte) error {
	if last := len(text) - 1; last > 0 && text[0] == '"' && text[last] == '"' {
		text = text[1:last]
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || text[0] == '0' && len(text) > 1 {
		return ErrNoID
	}
	*id = ID(n)
	return nil
}
