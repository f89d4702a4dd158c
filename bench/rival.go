package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"velocityd/bench/workload"
)

const fetchLimit = 5 * time.Minute

// addRivals sets up the contenders that are other people's software. The report names
// those that could not be set up, with the reason.
func (s *stage) addRivals(ctx context.Context) {
	const envoy, rate, flexible, echo = "envoyproxy/ratelimit on Redis", "redis_rate behind Echo on Redis",
		"rate-limiter-flexible",
		"Echo alone"
	server, err := s.findRedis(ctx)
	if err != nil {
		s.miss(envoy, err)
		s.miss(rate, err)
	} else {
		if err := s.addEnvoy(ctx, server, envoy); err != nil {
			s.miss(envoy, err)
		}
		if err := s.addRate(ctx, server, rate); err != nil {
			s.miss(rate, err)
		}
	}
	if err := s.addFlexible(ctx, flexible); err != nil {
		s.miss(flexible, err)
	}
	if err := s.addEcho(ctx, echo); err != nil {
		s.miss(echo, err)
	}
}

func (s *stage) miss(name string, err error) {
	s.absent = append(s.absent, absence{name: name, reason: strings.Join(strings.Fields(err.Error()), " ")})
}

// persistence is how a Redis writes to disk.
type persistence struct {
	id, name, about string
	args            []string
}

func persistences() []persistence {
	return []persistence{
		{"", "without persistence", "nothing on disk: a restart forgets every attempt", []string{"--appendonly", "no"}},
		{
			"-aof", "appendfsync always", "every command on disk before its answer; the file is never rewritten",
			[]string{"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"},
		},
	}
}

func (s *stage) findRedis(ctx context.Context) (string, error) {
	s.progress("redis")
	out, err := output(ctx, fetchLimit, exec.CommandContext(ctx, filepath.Join(s.root, "bench", "rivals", "redis.sh")))
	if err != nil {
		return "", err
	}
	program := strings.TrimSpace(string(out))
	out, err = output(ctx, fetchLimit, exec.CommandContext(ctx, program, "--version"))
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(string(out)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			s.versions = append(s.versions, "Redis "+version)
		}
	}
	return program, nil
}

// redis is a running Redis.
type redis struct {
	pid      int
	socket   string
	logBytes func() (int64, error) // nil without persistence
}

// startRedis starts a Redis on a new socket. Each contender has a separate one, so that
// contenders do not share keys.
func (s *stage) startRedis(ctx context.Context, program, name string, p persistence) (redis, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return redis{}, fmt.Errorf("make a folder for %s: %w", name, err)
	}
	r := redis{socket: filepath.Join(dir, "socket")}
	process, err := s.start(ctx, name, "unix", r.socket, nil, program,
		append([]string{"--port", "0", "--unixsocket", r.socket, "--save", "", "--dir", dir}, p.args...)...)
	if err != nil {
		return redis{}, err
	}
	if r.pid = process.pid(); p.id != "" {
		r.logBytes = func() (int64, error) { return sizeOf(filepath.Join(dir, "appendonlydir", "*")) }
	}
	return r, nil
}

// buildRival builds a program of the rivals' module.
func (s *stage) buildRival(ctx context.Context, name, pkg string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, s.goBuild(ctx, filepath.Join(s.root, "bench", "rivals"), path, pkg)
}

// rivalVersion is the version of a module in the rivals' go.mod.
func (s *stage) rivalVersion(module string) string {
	text, err := os.ReadFile(filepath.Join(s.root, "bench", "rivals", "go.mod"))
	if err != nil {
		return "of unknown version"
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module {
			return fields[1]
		}
	}
	return "of unknown version"
}

// addEnvoy sets up envoyproxy/ratelimit with each kind of Redis.
func (s *stage) addEnvoy(ctx context.Context, server, name string) error {
	program, err := s.buildRival(ctx, "ratelimit", "github.com/envoyproxy/ratelimit/src/service_cmd")
	if err != nil {
		return err
	}
	s.versions = append(s.versions, "envoyproxy/ratelimit "+s.rivalVersion("github.com/envoyproxy/ratelimit"))
	config := filepath.Join(s.dir, "runtime", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return fmt.Errorf("make a folder for ratelimit: %w", err)
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(envoyConfig()), 0o600); err != nil {
		return fmt.Errorf("write ratelimit's limits: %w", err)
	}
	for _, p := range persistences() {
		if err := s.startEnvoy(ctx, program, server, name, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startEnvoy(ctx context.Context, program, server, name string, p persistence) error {
	store, err := s.startRedis(ctx, server, "redis-envoy"+p.id, p)
	if err != nil {
		return err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = freeAddress(ctx); err != nil {
			return err
		}
	}
	host, port, _ := net.SplitHostPort(addresses[0])
	_, grpc, _ := net.SplitHostPort(addresses[1])
	_, debug, _ := net.SplitHostPort(addresses[2])
	process, err := s.start(ctx, "ratelimit"+p.id, "tcp", addresses[0], []string{
		"HOST=" + host, "PORT=" + port, "GRPC_HOST=" + host, "GRPC_PORT=" + grpc, "DEBUG_HOST=" + host, "DEBUG_PORT=" + debug,
		"RUNTIME_ROOT=" + s.dir, "RUNTIME_SUBDIRECTORY=runtime", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=unix", "REDIS_URL=" + store.socket, "USE_STATSD=false", "LOG_LEVEL=error",
	}, program)
	if err != nil {
		return err
	}
	s.add(&contender{
		kind: kindEnvoy + p.id, name: name + ", " + p.name, protocol: workload.Envoy, address: addresses[0],
		service: process.pid(), server: store.pid, logBytes: store.logBytes,
		about: "its HTTP /json, its own settings but no statsd, Redis on a socket; " + p.about + ". Counts in fixed windows",
	})
	s.add(&contender{
		kind: kindRPC + p.id, name: name + " over gRPC, " + p.name, protocol: workload.RPC, address: addresses[1],
		service: process.pid(), server: store.pid, shares: true, about: "the same process and Redis, asked as Envoy asks it",
	})
	return nil
}

// envoyConfig returns the zones as ratelimit's configuration. Its windows are units of the clock.
func envoyConfig() string {
	var b strings.Builder
	b.WriteString("domain: bench\ndescriptors:\n")
	for _, z := range zones() {
		fmt.Fprintf(&b, "  - key: zone_%d\n    rate_limit:\n      unit: %s\n      requests_per_unit: %d\n", z.id, z.unit(),
			z.rate)
	}
	return b.String()
}

// unit returns the clock's unit that is about as long as the window.
func (z zone) unit() string {
	switch {
	case z.window >= month:
		return "month"
	case z.window >= day:
		return "day"
	case z.window >= hour:
		return "hour"
	case z.window >= minute:
		return "minute"
	}
	return "second"
}

// addRate sets up redis_rate behind Echo with each kind of Redis.
func (s *stage) addRate(ctx context.Context, server, name string) error {
	program, err := s.buildRival(ctx, "redisrate", "./echo")
	if err != nil {
		return err
	}
	s.versions = append(s.versions, "redis_rate "+s.rivalVersion("github.com/go-redis/redis_rate/v10")+
		" (go-redis "+s.rivalVersion("github.com/redis/go-redis/v9")+")")
	for _, p := range persistences() {
		store, err := s.startRedis(ctx, server, "redis-rate"+p.id, p)
		if err != nil {
			return err
		}
		args := []string{"--redis", store.socket}
		for _, z := range zones() {
			args = append(args, "--zone", fmt.Sprintf("%d:%d:%d", z.id, z.rate, z.window))
		}
		process, address, err := s.serve(ctx, "redisrate"+p.id, program, args...)
		if err != nil {
			return err
		}
		s.add(&contender{
			kind: kindRate + p.id, name: name + ", " + p.name, protocol: workload.Service, address: address,
			service: process.pid(), server: store.pid, logBytes: store.logBytes,
			about: "JSON in and out behind Echo v4, Redis on a socket; " + p.about + ". GCRA, not a sliding window. " +
				"Limits of one check are asked one after the other until one refuses, so those before it have counted the attempt",
		})
	}
	return nil
}

// flexibleOrder is the input of flexible.js.
type flexibleOrder struct {
	workload.Order
	Database string `json:"database"`
}

// addFlexible sets up rate-limiter-flexible's RateLimiterMySQL, in a process that is both
// caller and limiter.
func (s *stage) addFlexible(ctx context.Context, name string) error {
	node, err := exec.LookPath("node")
	npm, err2 := exec.LookPath("npm")
	if err != nil || err2 != nil {
		return errors.New("node and npm are not on PATH")
	}
	s.progress("npm ci")
	dir := filepath.Join(s.dir, "flexible")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(s.root, "bench", "rivals", "flexible"))); err != nil {
		return fmt.Errorf("copy flexible.js: %w", err)
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if _, err := output(ctx, fetchLimit, cmd); err != nil {
		return err
	}
	out, err := output(ctx, fetchLimit, exec.CommandContext(ctx, node, "-p",
		"process.version+' '+require('"+dir+"/node_modules/rate-limiter-flexible/package.json').version"))
	if err != nil {
		return err
	}
	e := s.engines[0]
	words := strings.Fields(string(out))
	s.versions = append(s.versions, "Node.js "+strings.TrimPrefix(words[0], "v"), "rate-limiter-flexible "+words[1])
	s.add(&contender{
		kind: kindFlexible, engine: e, name: name + ", " + e.name(), protocol: workload.Library, address: e.server.Socket(),
		server: e.server.PID(), logBytes: e.logBytes,
		about: "RateLimiterMySQL with mysql2, called in its own Node.js process, without HTTP. A counter for each key, in " +
			"fixed windows: no row for an attempt",
		run: func(ctx context.Context, order workload.Order) (workload.Summary, time.Duration, error) {
			cmd := exec.CommandContext(ctx, node, filepath.Join(dir, "flexible.js"))
			return carryOut(ctx, cmd, flexibleOrder{Order: order, Database: "bench_flexible"})
		},
	})
	return nil
}

// canned is the answer of the program in rivals/echo.
type canned struct {
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`
}

// addEcho sets up Echo without a limiter. It reads a check as the service does, and
// answers each with the same answer, which the service has given once.
func (s *stage) addEcho(ctx context.Context, name string) error {
	program, err := s.buildRival(ctx, "echo", "./echo")
	if err != nil {
		return err
	}
	s.versions = append(s.versions, "Echo "+s.rivalVersion("github.com/labstack/echo/v4"))
	text, err := s.answerOf(ctx, s.of(kindService)[0])
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "answer.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	process, address, err := s.serve(ctx, "echo", program, "--answer", path)
	if err != nil {
		return err
	}
	s.add(&contender{
		kind: kindEcho, name: name, protocol: workload.Service, address: address, service: process.pid(),
		about: "an Echo handler that reads a check and answers with the headers and the body of one of velocityd's " +
			"answers; no store, no decision: a floor, not a limiter",
	})
	return nil
}

// answerOf asks a service once and returns its answer as canned.
func (s *stage) answerOf(ctx context.Context, c *contender) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/v1/check",
		strings.NewReader(fmt.Sprintf(`{"zone_id":%d,"bucket_key":"user-00000"}`, zoneUser)))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.name, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: status %d: %w", c.name, response.StatusCode, err)
	}
	return json.Marshal(canned{Header: response.Header, Body: body})
}
