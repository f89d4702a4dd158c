package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the SQL of the script
)

const (
	startTime = 2 * time.Minute
	askTime   = 30 * time.Second
	lag       = 6 * time.Second
)

// instance is a velocityd dev with a private database, and the questions that it was asked.
type instance struct {
	binary, folder, url string
	dev                 *exec.Cmd
	db                  *sql.DB
	masks               *masks
	asked               []string // lines of the script
	last                string   // answer
}

// start starts a service without background tasks on a new database, and waits until it is ready.
func start(ctx context.Context, binary, engine string) (_ *instance, err error) {
	p := &instance{binary: binary}
	if p.folder, err = os.MkdirTemp("", "golden-"); err != nil {
		return nil, err
	}
	port, dbPort, err := freePorts()
	if err != nil {
		return nil, err
	}
	p.url = "http://127.0.0.1:" + port
	named, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return nil, err
	}
	p.masks = newMasks(p.folder, port, dbPort, strings.TrimPrefix(strings.TrimSpace(string(named)), "velocityd "))
	if err := os.Mkdir(filepath.Join(p.folder, "imported"), 0o700); err != nil {
		return nil, err
	}
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	p.dev = exec.CommandContext(context.WithoutCancel(ctx), binary, "dev", "--data", filepath.Join(p.folder, "data"),
		"--engine", engine, "--listen", "127.0.0.1:"+port, "--db-port", dbPort, "--retention", "off",
		"--gates", filepath.Join(p.folder, "gates.yaml"))
	p.dev.Env = p.environ()
	log, err := os.Create(filepath.Join(p.folder, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.dev.Stderr, p.dev.Stdout = log, log
	if err := p.dev.Start(); err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		p.stop()
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	sockets, err := filepath.Glob(filepath.Join(p.folder, "data", "*", "*.sock"))
	if err != nil || len(sockets) == 0 {
		sockets, err = filepath.Glob(filepath.Join(p.folder, "data", "*.sock"))
	}
	if err != nil || len(sockets) == 0 {
		p.stop()
		return nil, errors.New("the private database has no socket")
	}
	p.db, err = sql.Open("mysql", "root@unix("+sockets[0]+")/velocityd?parseTime=false&multiStatements=true")
	return p, err
}

// environ is that of this process without the program's own variables.
func (p *instance) environ() []string {
	list := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "VELOCITY_") && !strings.HasPrefix(v, "VELOCITY_CACHE")
	})
	return append(list, "VELOCITY_DATA="+filepath.Join(p.folder, "data"), "COLUMNS=140", "LC_ALL=C.UTF-8")
}

// stop ends the service, and removes the database.
func (p *instance) stop() {
	if p.db != nil {
		_ = p.db.Close()
	}
	_ = p.dev.Process.Signal(syscall.SIGTERM)
	_ = p.dev.Wait()
	_ = os.RemoveAll(p.folder)
}

func (p *instance) awaitReady(ctx context.Context) error {
	deadline := time.Now().Add(startTime)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		response, err := http.Get(p.url + "/readyz") //nolint:noctx // it is loopback
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("it is not ready in time")
}

func freePorts() (first, second string, err error) {
	for _, port := range []*string{&first, &second} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
		if err != nil {
			return "", "", err
		}
		*port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port) //nolint:errcheck // "tcp" has no other address
		defer l.Close()
	}
	return first, second, nil
}

// play asks all of a script, and returns the answers.
func (p *instance) play(ctx context.Context, script string) ([]byte, error) {
	var all bytes.Buffer
	for _, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p.asked = append(p.asked, line)
		answer, err := p.ask(ctx, line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if line != "pause" {
			p.last = answer
		}
		fmt.Fprintf(&all, "== %s\n%s\n", line, strings.TrimRight(p.masks.of(answer), "\n"))
	}
	return all.Bytes(), nil
}

// ask asks one line: a request, a command, or SQL. "{last id}" stands for the id in the answer before.
func (p *instance) ask(ctx context.Context, line string) (string, error) {
	if found := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(p.last); found != nil {
		line = strings.ReplaceAll(line, "{last id}", found[1])
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "sql":
		return p.query(ctx, rest)
	case "pause": // followers of the history show nothing younger
		time.Sleep(lag)
		return "", nil
	case "velocityd":
		return p.command(ctx, rest)
	}
	return p.request(ctx, kind, rest)
}

// request sends a request: a path, headers in square brackets, and a body. Streams are left after a second of silence.
func (p *instance) request(ctx context.Context, method, rest string) (string, error) {
	path, body, _ := strings.Cut(rest, " ")
	isStream := strings.Contains(path, "/follow")
	if isStream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	var header []string
	for strings.HasPrefix(body, "[") {
		var field string
		field, body, _ = strings.Cut(body[1:], "]")
		header, body = append(header, field), strings.TrimSpace(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, field := range header {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !isStream {
		return "", err
	}
	var answer strings.Builder
	fmt.Fprintln(&answer, response.StatusCode)
	for _, name := range []string{
		"Allow", "Cache-Control", "Content-Type", "ETag", "Link", "Location", "Ratelimit",
		"Ratelimit-Policy", "Retry-After",
	} {
		for _, value := range response.Header.Values(name) {
			fmt.Fprintf(&answer, "%s: %s\n", name, value)
		}
	}
	switch path {
	case "/metrics":
		text = metricNames(text)
	case "/json": // protobuf's JSON has spaces by chance
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil {
			text = compact.Bytes()
		}
	case "/openapi.yaml":
		text = nil // it is a file of the checkout
	}
	return answer.String() + "\n" + string(text), nil
}

// metricNames returns the series without their values.
func metricNames(text []byte) []byte {
	var names []string
	zone := regexp.MustCompile(`zone="\d+"`)
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "velocityd_") &&
			!strings.Contains(name, "_bucket{") {
			names = append(names, zone.ReplaceAllString(name, `zone="*"`)) // which of them have labels is a matter of time
		}
	}
	slices.Sort(names)
	return []byte(strings.Join(slices.Compact(names), "\n"))
}

// command runs a command of the program. One that follows is ended after two seconds.
func (p *instance) command(ctx context.Context, args string) (string, error) {
	if strings.Contains(args, " follow") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	c := exec.CommandContext(ctx, p.binary, strings.Fields(strings.ReplaceAll(args, "{folder}", p.folder))...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGINT) }
	c.Env = append(p.environ(), "VELOCITY_URL=")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return "", err
	}
	return fmt.Sprintf("exit %d\n%s%s", c.ProcessState.ExitCode(), stdout.String(), stderr.String()), nil
}

// query runs SQL and returns the rows of all results.
func (p *instance) query(ctx context.Context, query string) (string, error) {
	rows, err := p.db.QueryContext(ctx, query)
	if err != nil {
		return "error: " + err.Error(), nil
	}
	defer rows.Close()
	var answer strings.Builder
	for {
		names, err := rows.Columns()
		if err != nil {
			return "", err
		}
		for rows.Next() {
			values, into := make([]sql.NullString, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return "", err
			}
			for i, v := range values {
				fmt.Fprintf(&answer, "%s=%q ", names[i], v.String)
			}
			answer.WriteString("\n")
		}
		if !rows.NextResultSet() {
			return answer.String(), rows.Err()
		}
	}
}

// leftOut returns an error that names the operations, commands and public procedures that the script does not ask.
func (p *instance) leftOut(ctx context.Context) error {
	var missing []string
	for _, name := range slices.Concat(p.operations(ctx), p.commands(ctx), p.procedures(ctx)) {
		if !slices.ContainsFunc(p.asked, func(line string) bool { return name.MatchString(line) }) {
			missing = append(missing, name.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w %d:\n%s", errLeftOut, len(missing), strings.Join(missing, "\n"))
	}
	return nil
}

// operations are those of the program's own description.
func (p *instance) operations(ctx context.Context) (list []*regexp.Regexp) {
	text, _ := p.request(ctx, http.MethodGet, "/openapi.yaml?all")
	path := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch name := strings.TrimSuffix(strings.TrimSpace(line), ":"); {
		case strings.HasPrefix(line, "components:"):
			return list
		case strings.HasPrefix(line, "  /"):
			path = regexp.MustCompile(`\\\{[a-z_]+\\\}`).ReplaceAllString(regexp.QuoteMeta(name), `[^/ ?]+`)
		case path != "" && strings.HasPrefix(line, "    ") &&
			slices.Contains([]string{"get", "put", "post", "delete"}, name) && line[4] != ' ':
			list = append(list, regexp.MustCompile("^"+strings.ToUpper(name)+" "+path+`(?:[ ?]|$)`))
		}
	}
	return list
}

// commands are those of the program's help.
func (p *instance) commands(ctx context.Context) (list []*regexp.Regexp) {
	help, _ := p.command(ctx, "--help")
	_, help, _ = strings.Cut(help, "\nCommands:\n")
	for _, found := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*(?: [a-z][a-z-]*)*)(?:  |$)`).FindAllStringSubmatch(
		help, -1) {
		list = append(list, regexp.MustCompile("^velocityd "+found[1]+`(?: |$)`))
	}
	return list
}

// procedures are those that a comment calls public.
func (p *instance) procedures(ctx context.Context) (list []*regexp.Regexp) {
	rows, err := p.db.QueryContext(ctx, "SELECT ROUTINE_NAME FROM information_schema.ROUTINES "+
		"WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_COMMENT LIKE 'public%'")
	if err != nil {
		return []*regexp.Regexp{regexp.MustCompile("^public procedures: " + regexp.QuoteMeta(err.Error()))}
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if rows.Scan(&name) == nil {
			list = append(list, regexp.MustCompile("^sql CALL "+name+`\(`))
		}
	}
	if err := rows.Err(); err != nil {
		return []*regexp.Regexp{regexp.MustCompile("^public procedures: " + regexp.QuoteMeta(err.Error()))}
	}
	return list
}
