// Package serve is the common part of the Echo programs among the benchmark's contenders:
// it runs the process, and answers POST /v1/check.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
)

// Main runs a program until it ends or is interrupted, and exits with 1 if it fails.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Check answers POST /v1/check at an address until ctx ends.
func Check(ctx context.Context, address string, check echo.HandlerFunc) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/v1/check", check)
	server := &http.Server{Addr: address, Handler: e, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
