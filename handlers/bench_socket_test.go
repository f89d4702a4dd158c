//go:build unix

package handlers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/queue"
)

// benchServer makes a process of this test's binary the server of this name.
const benchServer = "VELOCITY_TEST_BENCH_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(benchServer); name != "" {
		if err := serveBenchmark(benchServers()[name]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// BenchmarkCPUOfACheck measures what a check costs a server process, which does
// nothing else, while 512 connections ask it in a closed loop. The floor of what
// can be had is "echo": the router alone, with the same request and answer.
func BenchmarkCPUOfACheck(b *testing.B) {
	for _, name := range []string{"echo", "handlers", "service"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			server := startBenchServer(b, name)
			server.ask(b, 512, 2*512) // connections, pools
			before := server.usage(b)
			b.ResetTimer()
			server.ask(b, 512, b.N)
			b.StopTimer()
			after := server.usage(b)
			each := func(total uint64) float64 { return float64(total) / float64(b.N) }
			b.ReportMetric(each(uint64(after.CPU-before.CPU))/1000, "cpu-µs/op")
			b.ReportMetric(each(after.Allocs-before.Allocs), "allocs/op")
			b.ReportMetric(each(after.Bytes-before.Bytes), "B/op")
		})
	}
}

// benchServers serve a listener, and give the same answer to the same request.
func benchServers() map[string]func(net.Listener) error {
	decision := service.Decision{
		CheckedAt: service.At(time.Now()),
		Verdicts:  []service.Verdict{{Bucket: bucketOf(1, "1_42"), TxnID: 981, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 1}},
	}
	over := func(store service.CheckStore) func(net.Listener) error {
		server := wire.NewServer(New(Options{
			Limiter: service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute}), AllowedHosts: []string{}, MaxBodyBytes: maxBody,
		}), time.Minute, nil)
		return func(l net.Listener) error { return server.Serve(wire.NewListener(l, wire.Options{})) }
	}
	return map[string]func(net.Listener) error{
		"echo":     (&http.Server{Handler: echoAlone(), ReadHeaderTimeout: time.Minute}).Serve,
		"handlers": over(fixed(decision)),
		"service":  over(queue.NewCoalescer(fixed(decision), queue.CoalescerOptions{Lanes: 1, Timeout: time.Second})),
	}
}

// echoAlone reads the request and writes an answer that was ready before.
func echoAlone() *echo.Echo {
	header := map[string]string{
		"X-Request-Id": "P5UHXBJ2J4UWXN6YOYZ2PDPAXY", "Cache-Control": "no-store",
		"RateLimit-Policy": `"1";q=5;w=60`, "RateLimit": `"1";r=4`,
	}
	answer := []byte(`{"blocked":false,"would_block":false,"txn_id":"981","retry_after":0,"checked_at":"2026-08-24T09:15:02.120000Z",` +
		`"buckets":[{"zone_id":1,"bucket_key":"1_42","blocked":false,"would_block":false,"txn_id":"981",` +
		`"rate":5,"window":60,"velocity":1,"remaining":4,"retry_after":0}]}`)
	e := echo.New()
	e.POST("/v1/check", func(c echo.Context) error {
		if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
			return err
		}
		for name, value := range header {
			c.Response().Header().Set(name, value)
		}
		return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, answer)
	})
	return e
}

// benchUsage is what a server process has used since it began.
type benchUsage struct {
	CPU           time.Duration
	Allocs, Bytes uint64
}

// serveBenchmark says where it serves, and then, for each line that it is told,
// what it has used. It ends with its input.
func serveBenchmark(serve func(net.Listener) error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() { _ = serve(listener) }()
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var kernel syscall.Rusage
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &kernel); err != nil {
			return err
		}
		used := benchUsage{
			CPU:    time.Duration(kernel.Utime.Nano() + kernel.Stime.Nano()),
			Allocs: memory.Mallocs, Bytes: memory.TotalAlloc,
		}
		if err := json.NewEncoder(os.Stdout).Encode(used); err != nil {
			return err
		}
	}
	return listener.Close()
}

// startedServer is a server process, seen from the benchmark.
type startedServer struct {
	address string
	input   io.Writer
	output  *bufio.Reader
}

func startBenchServer(b *testing.B, name string) *startedServer {
	b.Helper()
	process := exec.CommandContext(b.Context(), os.Args[0])
	process.Env = append(os.Environ(), benchServer+"="+name)
	process.Stderr = os.Stderr
	input, inErr := process.StdinPipe()
	output, outErr := process.StdoutPipe()
	if err := errors.Join(inErr, outErr, process.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = process.Wait()
	})
	s := &startedServer{input: input, output: bufio.NewReader(output)}
	address, err := s.output.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	s.address = address[:len(address)-1]
	return s
}

func (s *startedServer) usage(b *testing.B) benchUsage {
	b.Helper()
	var used benchUsage
	_, err := io.WriteString(s.input, "usage\n")
	line, readErr := s.output.ReadBytes('\n')
	if err := errors.Join(err, readErr, json.Unmarshal(line, &used)); err != nil {
		b.Fatal(err)
	}
	return used
}

// ask asks n checks through so many connections.
func (s *startedServer) ask(b *testing.B, connections, n int) {
	b.Helper()
	body := bucketJSON(1, "1_42")
	question := fmt.Appendf(nil, "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	var begun atomic.Int64
	var callers sync.WaitGroup
	for range connections {
		callers.Go(func() {
			connection, err := new(net.Dialer).DialContext(b.Context(), "tcp", s.address)
			if err != nil {
				b.Error(err)
				return
			}
			defer connection.Close()
			buffer := make([]byte, 4096)
			for begun.Add(1) <= int64(n) {
				if _, err := connection.Write(question); err != nil {
					b.Error(err)
					return
				}
				read, err := connection.Read(buffer) // an answer is one small packet
				if err != nil || !bytes.HasPrefix(buffer[:read], []byte("HTTP/1.1 200")) {
					b.Errorf("%s, %v", buffer[:read], err)
					return
				}
			}
		})
	}
	callers.Wait()
}
