// Command echo serves the contenders of the benchmark that stand behind Echo, at POST /v1/check. With -answer it is a
// lower limit: a handler that reads a check and gives each the same header and body, from a file. With -redis it asks
// redis_rate, and reads and writes the same JSON as velocityd. It knows nothing else of velocityd.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "address to answer on")
	path := flags.String("answer", "", "file with the header and the body of every answer, in JSON")
	socket := flags.String("redis", "", "the socket of Redis")
	zones := map[int64]redis_rate.Limit{}
	flags.Func("zone", "id:rate:seconds, once for each zone", func(text string) error {
		var id int64
		var rate, window int
		if _, err := fmt.Sscanf(text, "%d:%d:%d", &id, &rate, &window); err != nil {
			return err
		}
		zones[id] = redis_rate.Limit{Rate: rate, Burst: rate, Period: time.Duration(window) * time.Second}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *socket != "" {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: *socket})
		defer client.Close()
		return serve(ctx, *listen, limiter{redis_rate.NewLimiter(client), zones}.check)
	}
	text, err := os.ReadFile(*path)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var a canned
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	// The server writes these header fields by itself.
	a.Header.Del("Date")
	a.Header.Del("Content-Length")
	return serve(ctx, *listen, a.give)
}

// serve answers POST /v1/check at an address until ctx ends.
func serve(ctx context.Context, address string, check echo.HandlerFunc) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/v1/check", check)
	server := &http.Server{Addr: address, Handler: e, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// canned is an answer from a file.
type canned struct {
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`
}

func (a canned) give(c echo.Context) error {
	var asked check
	if err := c.Bind(&asked); err != nil {
		return err
	}
	maps.Copy(c.Response().Header(), a.Header)
	c.Response().WriteHeader(http.StatusOK)
	_, err := c.Response().Write(a.Body)
	return err
}

// limiter is redis_rate with the limits of zones.
type limiter struct {
	*redis_rate.Limiter
	zones map[int64]redis_rate.Limit
}

// verdicts is the answer to several buckets: as many as were asked.
type verdicts struct {
	Blocked bool      `json:"blocked"`
	Buckets []verdict `json:"buckets"`
}

type verdict struct {
	Blocked bool `json:"blocked"`
	bucket
	Rate       int     `json:"rate"`
	Remaining  int     `json:"remaining"`
	RetryAfter float64 `json:"retry_after"` // seconds
}

func (l limiter) check(c echo.Context) error {
	var asked check
	if err := c.Bind(&asked); err != nil {
		return err
	}
	if len(asked.Buckets) == 0 {
		one, err := l.ask(c.Request().Context(), asked.bucket)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, one)
	}
	var all verdicts
	for _, b := range asked.Buckets {
		one, err := l.ask(c.Request().Context(), b)
		if err != nil {
			return err
		}
		all.Buckets = append(all.Buckets, one)
		if all.Blocked = one.Blocked; all.Blocked {
			break
		}
	}
	return c.JSON(http.StatusOK, all)
}

func (l limiter) ask(ctx context.Context, b bucket) (verdict, error) {
	limit, ok := l.zones[b.ZoneID]
	if !ok || b.BucketKey == "" {
		return verdict{}, echo.NewHTTPError(http.StatusBadRequest, "no such zone, or no key")
	}
	result, err := l.Allow(ctx, strconv.FormatInt(b.ZoneID, 10)+":"+b.BucketKey, limit)
	if err != nil {
		return verdict{}, fmt.Errorf("ask redis: %w", err)
	}
	return verdict{
		Blocked: result.Allowed == 0, bucket: b, Rate: limit.Rate, Remaining: result.Remaining,
		RetryAfter: max(result.RetryAfter.Seconds(), 0),
	}, nil
}
