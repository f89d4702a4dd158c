package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

const gatesText = `gates:
  login:
    buckets:
      - {zone: 1, key: {form: username}}
      - {zone: 2, key: {client: address}}
    attempt: {header: X-Request-Id}
    deny: 429
`

func TestGateTryShowsTheQuestionAndAsksNobody(t *testing.T) {
	t.Parallel()
	path := fileOf(t, "gates.yaml", gatesText)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{
			[]string{
				"login", "--data", "username=al%69ce&password=x", "--header", "X-Request-Id: a, b", "--client",
				"198.51.100.7",
			},
			exitSuccess,
			"zone 1, key \"alice\"\nzone 2, key \"198.51.100.7\"\nattempt \"a, b\"\nallowed: 204; blocked: 429; not decided: " +
				"503\n",
		},
		{
			[]string{"login", "--data", "username=a", "--url-path", "/gate/login?deny=401", "--method", "PUT"},
			exitSuccess,
			"blocked: 401",
		},
		{[]string{"login", "--data", "username=a", "--url-path", "/gate/login/x?deny=401"}, exitSuccess, "blocked: 429"},
		{
			[]string{"login"},
			exitError,
			"the gate answers 400: invalid: gate login, zone 1: the form field username is missing",
		},
		{[]string{"logn"}, exitUsage, "it has login"},
		{[]string{"login", "--header", "x"}, exitUsage, "NAME: VALUE"},
		{[]string{"login", "--method", "a b"}, exitUsage, "--method"},
	} {
		r := command(nil, nil, append([]string{"gate", "try", path}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%q: %+v, want %d %q", c.args, r, c.code, c.want)
		}
	}
}

func TestGateLintNamesFaultyLinesAndMissingZones(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	good := fileOf(t, "gates.yaml", gatesText)
	wrong := fileOf(t, "gates.yaml", strings.NewReplacer("deny", "denny", "form", "forms").Replace(gatesText))
	for _, c := range []struct {
		env  environment
		path string
		code int
		want string
	}{
		{nil, good, exitSuccess, "no findings in 1 gate and 0 domains\n"},
		{nil, wrong, exitFindings, "line 4: gate login, bucket 1, key has no member forms: did you mean form?\n" +
			"line 4: gate login, bucket 1, key must have one of the members header, query, form, json, basic, client\n" +
			"line 7: gate login has no member denny: did you mean deny?\n"},
		{
			environment{"VELOCITY_DSN": d.DSN},
			good, exitFindings,
			"gate login: zone 2 does not exist, so every request is refused with 400\n",
		},
		{nil, good + "x", exitError, "no such file"},
		{nil, fileOf(t, "gates.yaml", "gates: ["), exitError, "read the gates: yaml"},
	} {
		r := command(c.env, nil, "gate", "lint", c.path)
		if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: %+v, want %d %q", c.path, r, c.code, c.want)
		}
	}
	if r := command(nil, nil, "gate", "lint", "--json", wrong); r.code != exitFindings ||
		!strings.HasSuffix(r.stdout, `{"line":7,"text":"gate login has no member denny: did you mean deny?"}]}`+"\n") {
		t.Errorf("as JSON: %+v", r)
	}
	if r := command(nil, nil, "gate", "lint", "--json", good); r.stdout != `{"gates":1,"domains":0,"findings":[]}`+"\n" {
		t.Errorf("as JSON: %+v", r)
	}
	if r := command(environment{"VELOCITY_DSN": d.DSN}, nil, "serve", "--listen", "127.0.0.1:0", "--gates",
		wrong); r.code != exitUsage ||
		!strings.Contains(r.stderr, "--gates (VELOCITY_GATES)") || !strings.Contains(r.stderr, "line 7") {
		t.Errorf("serve with a wrong file: %+v", r)
	}
}

// askGate asks the gate login for alice, by a form.
func askGate(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Post(url+"/gate/login", "application/x-www-form-urlencoded", strings.NewReader("username=alice"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func TestServeFollowsItsFileOfGates(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour},
		service.Zone{ID: 2, Rate: 100, Window: time.Hour})
	path := fileOf(t, "gates.yaml", gatesText)
	i := start(t, environment{"VELOCITY_DSN": d.DSN, "VELOCITY_GATES": path}, "serve")
	if first, second := askGate(t, i.url), askGate(t, i.url); first != 204 || second != 429 {
		t.Errorf("%d and %d", first, second)
	}
	writeFile(t, path, []byte(strings.Replace(gatesText, "429", "403", 1)))
	enginetest.Eventually(t, "the changed file is in force", func() bool { return askGate(t, i.url) == 403 })
	writeFile(t, path, []byte("gates: ["))
	enginetest.Eventually(t, "the wrong file is logged",
		func() bool { return strings.Contains(i.stderr.String(), "gates not loaded") })
	if status := askGate(t, i.url); status != 403 {
		t.Errorf("with a wrong file: %d", status)
	}
	enginetest.Eventually(t, "the metric says so", func() bool {
		return strings.Contains(mustAsk(t, i.url+"/metrics", "", 200).body, "velocityd_gates_file_loaded 0\n")
	})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestServeCountsClientNamedByProxyProtocol(t *testing.T) {
	t.Parallel()
	_, env := databaseOf(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	if r := command(env, nil, "serve", "--proxy-protocol"); r.code != exitUsage ||
		!strings.Contains(r.stderr, "--trusted-proxies") {
		t.Errorf("without proxies: %+v", r)
	}
	i := launch(t, env, "serve", "--proxy-protocol", "--trusted-proxies", "127.0.0.1", "--admin-listen", "127.0.0.1:0")
	i.awaitAddress(t)
	ask := func(client string) int {
		conn, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(
			conn, "PROXY TCP4 "+client+" 192.0.2.1 4711 443\r\nGET /v1/gate?zone=1&key=@client HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	for _, c := range []struct {
		client string
		want   int
	}{{"198.51.100.7", 204}, {"198.51.100.8", 204}, {"198.51.100.7", 403}} {
		if got := ask(c.client); got != c.want {
			t.Errorf("%s: %d, want %d", c.client, got, c.want)
		}
	}
}
