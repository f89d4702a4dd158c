package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"velocityd/api"
	"velocityd/db"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/service/event"
	"velocityd/service/webhook"
	"velocityd/tools/enginetest"
)

// rightsWorld is a database with something for every operation, and a service on it by an account with the rights of a
// role.
type rightsWorld struct {
	*enginetest.Database                      // as an administrator
	narrow               *enginetest.Database // as the service
	service              *instanceUnderTest
	store                *db.Store // of the same account, for background tasks
	asked                int
	job                  string
}

const rightsGates = `gates:
  login:
    buckets:
      - {zone: 1, key: {header: X-User}}
    attempt: {header: X-Attempt}
`

func newRightsWorld(t *testing.T, engine *enginetest.Engine, role roles.Role) *rightsWorld {
	t.Helper()
	w := &rightsWorld{Database: engine.Database(t)}
	w.LeaveUnaudited() // its rows are written by hand
	for _, statement := range []string{
		"INSERT INTO zone_master (id, rate, `window`, totals, lockout, repeat_secret) VALUES (1, 2, 3600, TRUE, 60, " +
			"'free'), (2, 1, 3600, FALSE, 0, 'count')",
		"INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (3, 9, 3600, 'ip')",
		"INSERT INTO zone_override (zone_id, prefix, action) VALUES (3, '203.0.113.0/24', 'deny')",
		"INSERT INTO zone_override (id, zone_id, bucket_key, action) VALUES (9, 1, 'mallory', 'deny')",
		"INSERT INTO webhook (id, url, secret, created_by, created_at, position) VALUES (1, 'https://hooks.example.com/', " +
			"'whsec_x', 'ann', NOW(), 0)",
		"UPDATE retention_policy SET keep_days = 1, minimum_days = 1",
	} {
		enginetest.Exec(t, w.SQL, statement)
	}
	w.narrow = w.RoleAccount(t, role)
	store, err := db.Open(session.Options{DSN: w.narrow.DSN, MaxConns: session.LeastMaxConns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w.store = store
	w.service = start(t, environment{"VELOCITY_DSN": w.narrow.DSN},
		append([]string{"serve", "--gates", fileOf(t, "gates.yaml", rightsGates)}, slow...)...)
	return w
}

// fill writes the parts that differ from one request to the next: %n is a number of the request, %j the last back-test.
func (w *rightsWorld) fill(text string) string {
	return strings.NewReplacer("%n", fmt.Sprint(w.asked+100), "%j", w.job).Replace(text)
}

// ask asks one operation.
func (w *rightsWorld) ask(t *testing.T, o operation) (status int, text string) {
	t.Helper()
	if strings.HasSuffix(o.name, "/backtest") { // while one is under way there is no place for another one
		enginetest.Eventually(t, "a back-test begins", func() bool {
			status, text = w.askOnce(t, o)
			return status != http.StatusServiceUnavailable
		})
		return status, text
	}
	return w.askOnce(t, o)
}

func (w *rightsWorld) askOnce(t *testing.T, o operation) (status int, text string) {
	t.Helper()
	w.asked++
	if o.before != "" {
		if _, err := w.SQL.ExecContext(t.Context(), w.fill(o.before)); err != nil &&
			!session.IsNumber(err, session.NumberDuplicate) {
			t.Fatalf("before %s: %v", o.name, err)
		}
	}
	method, target, _ := strings.Cut(o.name, " ")
	if o.target != "" {
		target = o.target
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, w.service.url+w.fill(target),
		strings.NewReader(w.fill(o.body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(o.header); i += 2 {
		request.Header.Set(o.header[i], o.header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
	defer response.Body.Close()
	body := make([]byte, 1<<14)
	n := 0
	if !strings.HasSuffix(o.name, "/follow") { // which never ends
		for {
			more, err := response.Body.Read(body[n:])
			if n += more; err != nil || n == len(body) {
				break
			}
		}
	}
	if _, after, found := strings.Cut(string(body[:n]), `"job":"`); found {
		w.job, _, _ = strings.Cut(after, `"`)
	} else if at := response.Header.Get("Location"); strings.Contains(at, "/backtest/") {
		w.job = path.Base(at)
	}
	return response.StatusCode, string(body[:n])
}

// work runs the tasks of retention, of events and of webhooks once, due or not, and the own tasks of an instance.
// Neither finds its work done by the last time.
func (w *rightsWorld) work(t *testing.T) (done []string, errs []string) {
	t.Helper()
	w.ask(t, operation{name: "POST /v1/check", body: `{"zone_id":1,"bucket_key":"w%n"}`})
	for _, statement := range []string{ // totals are of txns with an age
		"UPDATE zone_txn SET created_at = created_at - INTERVAL 5 MINUTE",
		"UPDATE zone_txn_mark SET marked_at = marked_at - INTERVAL 5 MINUTE",
		"UPDATE totals_progress SET rolled_up_to = rolled_up_to - INTERVAL 6 MINUTE",
		"DELETE FROM webhook_delivery", "UPDATE webhook SET position = 0 WHERE id = 1", "DELETE FROM webhook WHERE id > 1",
		"UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE",
	} {
		enginetest.Exec(t, w.SQL, statement)
	}
	refuse := func(context.Context, webhook.Webhook, string, event.Event) error {
		return errors.New("refused by the test")
	}
	take := func(context.Context, webhook.Webhook, string, event.Event) error { return nil }
	for _, runner := range []*retention.Runner{
		w.store.RetentionRunner(), w.store.EventRunner(), w.store.WebhookRunner(refuse),
		w.store.WebhookRunner(take),
	} {
		err := runner.Finish(t.Context(), func(run retention.Run) {
			done = append(done, run.Task)
			if run.Err != nil {
				errs = append(errs, run.Task+": "+run.Err.Error())
			}
		})
		if err != nil {
			errs = append(errs, err.Error())
		}
		enginetest.Exec(t, w.SQL, "UPDATE webhook_delivery SET next_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
	}
	_, census := w.store.Records.Census(t.Context())
	for what, err := range map[string]error{
		"the use of a credential": w.store.Records.UseCredential(t.Context(), 1), "the census": census,
	} {
		if err != nil {
			errs = append(errs, what+": "+err.Error())
		}
	}
	return done, errs
}

// TestTheServicesAccountMayDoEachOperation asks each operation of api/openapi.yaml as the account of migrate roles
// --service-edits-zones, and does the background work of serve. Then it takes away one right after the other: the
// operation that needs it is refused, and the log names the right.
func TestTheServicesAccountMayDoEachOperation(t *testing.T) {
	t.Parallel()
	all := map[string]operation{}
	for _, o := range operations() {
		all[o.name] = o
	}
	for _, name := range describedOperations(t) {
		if _, found := all[name]; !found {
			t.Errorf("%s of api/openapi.yaml has no row in this test", name)
		}
	}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		w := newRightsWorld(t, engine, roles.Editor)
		for _, o := range operations() {
			if status, text := w.ask(t, o); status != o.wanted() {
				t.Errorf("%s: %d %s, want %d", o.name, status, text, o.wanted())
			}
		}
		done, errs := w.work(t)
		for _, name := range append(w.store.RetentionRunner().Names(), w.store.EventRunner().Names()...) {
			if !slices.Contains(done, name) {
				t.Errorf("task %s did not run", name)
			}
		}
		if len(errs) > 0 {
			t.Errorf("background tasks: %q", errs)
		}
		operationOf := needs()
		for _, right := range roles.Rights(migrations.MySQL, roles.Editor) {
			for _, privilege := range right.Privileges {
				if right.Object.Name == "*" {
					continue // EXECUTE, of which a session hears when it is new: see TestEachCommandNeedsTheRightsOfItsRole
				}
				verb, column, _ := strings.Cut(privilege, " ")
				name := strings.TrimSpace(verb + " " + right.Object.Name + " " + column)
				o := cmp.Or(operationOf[name], "none")
				restore := revoke(t, w.Database, w.narrow, privilege, right.Object.Name)
				if text := w.refusal(t, o, all[o]); !namesRight(text, privilege, right.Object.Name) {
					t.Errorf("without %s, this does not name it: %s: %s", name, o, text)
				}
				restore()
			}
		}
	})
}

// refusal has the texts about an operation that the account may not do: in the answer, and in the log.
func (w *rightsWorld) refusal(t *testing.T, name string, o operation) string {
	t.Helper()
	switch name {
	case first:
		enginetest.Exec(t, w.SQL, "DELETE FROM totals_progress")
		fallthrough
	case background:
		_, errs := w.work(t)
		return strings.Join(errs, "\n")
	case examined:
		r := command(environment{"VELOCITY_DSN": w.narrow.DSN}, nil, "doctor")
		return r.stdout + r.stderr
	}
	mark := len(w.service.stderr.String())
	status, body := w.ask(t, o)
	if status != http.StatusForbidden {
		t.Errorf("%s: %d, want 403", name, status)
	}
	return body + w.service.stderr.String()[mark:]
}

func (o operation) wanted() int { return cmp.Or(o.status, http.StatusOK) }

// describedOperations are those of api/openapi.yaml, such as "GET /v1/zones".
func describedOperations(t *testing.T) (names []string) {
	t.Helper()
	var doc struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(api.Description, &doc); err != nil || len(doc.Paths) < 30 {
		t.Fatal(len(doc.Paths), err)
	}
	for route, methods := range doc.Paths {
		for _, method := range []string{"get", "put", "post", "delete", "patch"} {
			if methods[method] != nil {
				names = append(names, strings.ToUpper(method)+" "+route)
			}
		}
	}
	return names
}

// revoke takes a right on a table, on a procedure or, as *, on the database from an account, and returns the statement
// that gives it back.
func revoke(t *testing.T, d, narrow *enginetest.Database, privilege, object string) (restore func()) {
	t.Helper()
	cfg := configOf(t, narrow.DSN)
	on, account := privilege+" ON "+cfg.DBName+"."+object, "'"+cfg.User+"'@'localhost'"
	if strings.HasPrefix(object, "PROCEDURE ") {
		on = privilege + " ON PROCEDURE " + cfg.DBName + "." + strings.TrimPrefix(object, "PROCEDURE ")
	}
	enginetest.Exec(t, d.SQL, "REVOKE "+on+" FROM "+account)
	return func() { enginetest.Exec(t, d.SQL, "GRANT "+on+" TO "+account) }
}

// namesRight says that an error names a right: the privilege and, unless it is on the database, the object. MySQL says
// of an UPDATE or DELETE that a lock needs that the locking clause is denied.
func namesRight(text, privilege, object string) bool {
	verb, column, _ := strings.Cut(privilege, " ")
	object = strings.TrimPrefix(object, "PROCEDURE ")
	upper := strings.ToUpper(text)
	return (strings.Contains(upper, verb) || strings.Contains(text, "with locking clause")) &&
		(object == "*" || strings.Contains(text, object)) && strings.Contains(text, strings.Trim(column, "()"))
}
