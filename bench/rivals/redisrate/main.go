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

type request struct {
	ZoneID    int    `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
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
		limit, ok := zones[r.ZoneID]
		if !ok || r.BucketKey == "" {
			return echo.NewHTTPError(http.StatusBadRequest, "no such zone, or no key")
		}
		result, err := limiter.Allow(c.Request().Context(), strconv.Itoa(r.ZoneID)+":"+r.BucketKey, limit)
		if err != nil {
			return fmt.Errorf("ask redis: %w", err)
		}
		return c.JSON(http.StatusOK, answer{
			Blocked: result.Allowed == 0, ZoneID: r.ZoneID, BucketKey: r.BucketKey,
			Rate: limit.Rate, Remaining: result.Remaining, RetryAfter: max(result.RetryAfter.Seconds(), 0),
		})
	}
}
