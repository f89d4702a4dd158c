// Command redisrate is a contender of the benchmark: redis_rate behind an Echo
// handler that reads and writes the same JSON as velocityd. It knows nothing else of
// velocityd.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"velocityd/bench/rivals/serve"
)

type bucket struct {
	ZoneID    int    `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
}

// request is one bucket, or several of them.
type request struct {
	bucket

	Buckets []bucket `json:"buckets"`
}

// verdicts is the answer to several buckets: as many as were asked.
type verdicts struct {
	Blocked bool     `json:"blocked"`
	Buckets []answer `json:"buckets"`
}

type answer struct {
	Blocked    bool    `json:"blocked"`
	ZoneID     int     `json:"zone_id"`
	BucketKey  string  `json:"bucket_key"`
	Rate       int     `json:"rate"`
	Remaining  int     `json:"remaining"`
	RetryAfter float64 `json:"retry_after"` // seconds
}

func main() { serve.Main("redisrate", run) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("redisrate", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "address to answer on")
	socket := flags.String("redis", "", "the socket of Redis")
	zones := map[int]redis_rate.Limit{}
	flags.Func("zone", "id:rate:seconds, once for each zone", func(text string) error {
		var id, rate, window int
		if _, err := fmt.Sscanf(text, "%d:%d:%d", &id, &rate, &window); err != nil {
			return err
		}
		zones[id] = redis_rate.Limit{Rate: rate, Burst: rate, Period: time.Duration(window) * time.Second}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: *socket})
	defer client.Close()
	return serve.Check(ctx, *listen, check(redis_rate.NewLimiter(client), zones))
}

func check(limiter *redis_rate.Limiter, zones map[int]redis_rate.Limit) echo.HandlerFunc {
	return func(c echo.Context) error {
		var r request
		if err := c.Bind(&r); err != nil {
			return err
		}
		if len(r.Buckets) == 0 {
			one, err := ask(c.Request().Context(), limiter, zones, r.bucket)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, one)
		}
		var all verdicts
		for _, b := range r.Buckets {
			one, err := ask(c.Request().Context(), limiter, zones, b)
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
}

func ask(ctx context.Context, limiter *redis_rate.Limiter, zones map[int]redis_rate.Limit, b bucket) (answer, error) {
	limit, ok := zones[b.ZoneID]
	if !ok || b.BucketKey == "" {
		return answer{}, echo.NewHTTPError(http.StatusBadRequest, "no such zone, or no key")
	}
	result, err := limiter.Allow(ctx, strconv.Itoa(b.ZoneID)+":"+b.BucketKey, limit)
	if err != nil {
		return answer{}, fmt.Errorf("ask redis: %w", err)
	}
	return answer{
		Blocked: result.Allowed == 0, ZoneID: b.ZoneID, BucketKey: b.BucketKey,
		Rate: limit.Rate, Remaining: result.Remaining, RetryAfter: max(result.RetryAfter.Seconds(), 0),
	}, nil
}
