// Command echo is a lower limit of the benchmark: an Echo handler that reads a check in
// JSON and answers each with the same header and body, from a file. It decides nothing
// and knows nothing of velocityd. With -call it calls check_velocity before each answer,
// which shows what HTTP alone adds to a CALL. With -record it inserts a row for each bucket, as
// a limiter does that records and does not limit. With -lock it also locks a bucket and looks at
// nothing.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"

	_ "github.com/go-sql-driver/mysql"
	"github.com/labstack/echo/v4"

	"velocityd/bench/peers/serve"
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

// all returns the buckets of a check, which names one or lists several.
func (c check) all() []bucket {
	if len(c.Buckets) == 0 {
		return []bucket{c.bucket}
	}
	return c.Buckets
}

type answer struct {
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`

	database *sql.DB   // where check_velocity is called; nil means no call
	recorder *recorder // nil means that nothing is recorded
}

func main() { serve.Main("echo", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "address to answer on")
	path := flags.String("answer", "", "file with the header and the body of every answer, in JSON")
	dsn := flags.String("call", "", "database whose check_velocity is called for each check")
	record := flags.String("record", "", "database in whose zone_txn each check is recorded")
	lock := flags.String("lock", "", `where the bucket of the first check is locked: "with" its row, in one packet, or "before", in one more; then one packet or pair of packets is under way at a time; empty means that nothing is locked`)
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
	if *dsn != "" {
		if a.database, err = sql.Open("mysql", *dsn); err != nil {
			return fmt.Errorf("open the database: %w", err)
		}
		defer a.database.Close()
	}
	if *record != "" {
		if a.recorder, err = newRecorder(ctx, *record, *lock); err != nil {
			return err
		}
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
	if a.database != nil {
		if err := a.call(c.Request().Context(), asked.bucket); err != nil {
			return err
		}
	}
	if a.recorder != nil {
		if err := a.recorder.record(asked.all()); err != nil {
			return fmt.Errorf("record a check: %w", err)
		}
	}
	header := c.Response().Header()
	for name, values := range a.Header {
		header[name] = values
	}
	c.Response().WriteHeader(http.StatusOK)
	_, err := c.Response().Write(a.Body)
	return err
}

// call calls check_velocity and ignores its decision.
func (a answer) call(ctx context.Context, b bucket) error {
	rows, err := a.database.QueryContext(ctx, "CALL check_velocity(?, ?)", b.ZoneID, b.BucketKey)
	if err != nil {
		return fmt.Errorf("call check_velocity: %w", err)
	}
	defer rows.Close()
	for rows.Next() || rows.NextResultSet() { // to the end
	}
	return rows.Err()
}
