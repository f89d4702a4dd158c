// Command echo is a lower limit of the benchmark: an Echo handler that reads a check in
// JSON and answers each with the same header and body, from a file. It decides nothing
// and knows nothing of velocityd.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"

	"velocityd/bench/rivals/serve"
)

// check is a question about one bucket or several.
type check struct {
	bucket
	Buckets   []bucket `json:"buckets"`
	AttemptID string   `json:"attempt_id"`
}

type bucket struct {
	ZoneID    int64  `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
}

type answer struct {
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`
}

func main() { serve.Main("echo", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "address to answer on")
	path := flags.String("answer", "", "file with the header and the body of every answer, in JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*path)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	// The server writes these header fields by itself.
	a.Header.Del("Date")
	a.Header.Del("Content-Length")
	return serve.Check(ctx, *listen, a.give)
}

func (a answer) give(c echo.Context) error {
	var asked check
	if err := c.Bind(&asked); err != nil {
		return err
	}
	header := c.Response().Header()
	for name, values := range a.Header {
		header[name] = values
	}
	c.Response().WriteHeader(http.StatusOK)
	_, err := c.Response().Write(a.Body)
	return err
}
