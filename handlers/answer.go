package handlers

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"velocityd/api"
	"velocityd/service"
)

// respondAppended answers with the JSON that encode appends.
func (s *server) respondAppended(x *exchange, encode func([]byte) ([]byte, error)) error {
	answer := s.buffers.take()
	defer s.buffers.giveBack(answer)
	body, err := encode(answer.AvailableBuffer())
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	answer.Write(body) // copies only if body has outgrown the buffer
	x.set(fieldCacheControl, "no-store")
	x.respond(http.StatusOK, api.MediaJSON, answer.Bytes())
	return nil
}

// appendResults appends the answers of several checks: the decision of each, or the
// problem made of its Err.
func appendResults(b []byte, decisions []service.Decision) (_ []byte, err error) {
	b = append(b, `{"results":[`...)
	for i, d := range decisions {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendResult(b, d); err != nil {
			return b, err
		}
	}
	return append(b, "]}"...), nil
}

func appendResult(b []byte, d service.Decision) (_ []byte, err error) {
	if d.Err == nil {
		b, err = d.AppendJSON(append(b, `{"decision":`...))
		return append(b, '}'), err
	}
	text, err := json.Marshal(problemOf(d.Err))
	return append(append(append(b, `{"problem":`...), text...), '}'), err
}
