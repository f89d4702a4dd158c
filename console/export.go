package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/client/inprocess"
)

// exportHistory returns the action that sends all attempts which pass the filters in the address, as a file of a
// format, the newest first. The HTTP interface notes it in the audit.
func exportHistory(format string) func(*visit) error {
	return func(v *visit) error {
		f, err := v.filter(v.r.URL.Query())
		if err != nil {
			return err
		}
		f.query.Cursor = 0
		values := client.HistoryValues(f.query)
		values.Set("format", format)
		name := fmt.Sprintf("attempts-%s.%s", v.Now().UTC().Format("2006-01-02T150405"), format)
		return v.stream("/v1/txns?"+values.Encode(), name)
	}
}

// stream sends the answer of the HTTP interface to the browser, as it comes: a history fits in no memory. A refusal
// is returned, so that the reader gets a page. The interface bounds the time for each part.
func (v *visit) stream(path, name string) error {
	r, err := http.NewRequestWithContext(v.r.Context(), v.r.Method, "http://velocityd"+path, nil)
	if err != nil {
		return fmt.Errorf("ask for a stream: %w", err)
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	asked := inprocess.Transport{API: v.API, Caller: v.r}.AsCaller(r)
	asked.Proto, asked.ProtoMajor, asked.ProtoMinor = v.r.Proto, v.r.ProtoMajor, v.r.ProtoMinor // HTTP/1.0 has no streams
	w := &exportWriter{ResponseWriter: v.w, name: name}
	v.API.ServeHTTP(w, asked)
	return w.err()
}

// exportWriter writes an answer to the browser, unless it is a refusal: then it keeps it.
type exportWriter struct {
	http.ResponseWriter
	name    string // of the file, for the browser
	refusal *inprocess.Answer
}

// WriteHeader implements http.ResponseWriter.
func (w *exportWriter) WriteHeader(status int) {
	switch {
	case w.refusal != nil:
	case status >= http.StatusBadRequest:
		w.refusal = &inprocess.Answer{Status: status}
		w.Header().Del("Content-Length")
	default:
		w.Header().Set("Content-Disposition", `attachment; filename="`+w.name+`"`)
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *exportWriter) Write(text []byte) (int, error) {
	if w.refusal != nil {
		return w.refusal.Write(text)
	}
	return w.ResponseWriter.Write(text)
}

// FlushError sends the bytes that were written.
func (w *exportWriter) FlushError() error {
	if w.refusal != nil {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// SetWriteDeadline bounds the time that the browser has to take a part.
func (w *exportWriter) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(at)
}

func (w *exportWriter) err() error {
	if w.refusal == nil {
		return nil
	}
	problem := new(api.Problem)
	if err := json.Unmarshal(w.refusal.Body.Bytes(), problem); err != nil {
		return fmt.Errorf("the stream was refused with status %d", w.refusal.Status)
	}
	return problem
}
