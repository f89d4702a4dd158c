package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/service"
)

func TestVitessAndTiDBErrorsLoseTheirValues(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	const shard, zones = "target: velocityd_buckets.-80.primary: ", "target: velocityd.0.primary: "
	for _, tc := range []struct {
		engine  engine.Engine
		number  uint16
		message string
		kind    error // of a check that it met before the COMMIT
		wants   string
	}{
		{
			engine.Vitess, 1105,
			shard + `no healthy tablet available for 'keyspace:"velocityd_buckets" shard:"-80" tablet_type:PRIMARY'`,
			service.ErrBusy, "shard -80",
		},
		{
			engine.Vitess, 1105, zones + `no healthy tablet available for 'keyspace:"velocityd" shard:"0" tablet_type:PRIMARY'`,
			service.ErrAway,
			"keyspace velocityd",
		},
		{
			engine.Vitess, 1105, shard + `vttablet: rpc error: code = Unavailable desc = error reading from server: EOF`,
			service.ErrBusy,
			"shard -80",
		},
		{
			engine.Vitess, 2013, shard + `vttablet: (errno 2013) (sqlstate HY000) (CallerID: x): Sql: "SELECT hunter2"`,
			service.ErrBusy,
			"shard -80",
		},
		{
			engine.Vitess, 1290, shard + `vttablet: The MySQL server is running with the --super-read-only option (errno 1290)`,
			service.ErrBusy,
			"shard -80",
		},
		{
			engine.Vitess, 1317, shard + `vttablet: rpc error: code = DeadlineExceeded desc = context deadline exceeded`,
			service.ErrBusy,
			"shard -80",
		},
		{
			engine.Vitess, 1317,
			shard + `vttablet: rpc error: code = Aborted desc = transaction 7: ended at 12:00 (exceeded timeout: 4s)`,
			service.ErrBusy, "1317",
		},
		{
			engine.Vitess, 1205,
			shard + `vttablet: rpc error: (errno 1205) (sqlstate HY000): Sql: "SELECT hunter2", BindVars: {k: "hunter2"}`,
			service.ErrBusy, "1205",
		},
		{
			engine.Vitess, 1062, shard + `Duplicate entry 'hunter2' for key 'zone_attempt.PRIMARY' (errno 1062)`,
			service.ErrBusy, "1062",
		},
		{
			engine.Vitess, 1105,
			zones +
				`vttablet: rpc error: code = FailedPrecondition desc = disallowed due to rule: enforce denied tables (CallerID: x)`,
			service.ErrPaused, "denied tables",
		},
		{
			engine.Vitess, 1105, shard + `vttablet: disallowed due to rule: enforce denied tables (CallerID: x)`,
			service.ErrPaused,
			"denied tables",
		},
		{engine.Vitess, 1105, `table zone_txn not found`, service.ErrUnfit, "1146"},
		{engine.Vitess, 1105, `ambiguous table reference: zone_txn`, service.ErrUnfit, "1052"},
		{engine.Vitess, 1105, `syntax error at position 7 near 'hunter2'`, nil, "syntax error"},
		{
			engine.Vitess, 3819,
			shard +
				`vttablet: Check constraint 'rate must be 0 to 1000000' is violated. (errno 3819) (sqlstate HY000) (CallerID: x): Sql: "insert into zone_override values (:v1)", BindVars: {v1: "hunter2"}`, service.ErrInvalid, "rate must be",
		},
		{engine.TiDB, 1105, `pessimistic lock retry limit reached`, service.ErrBusy, "9007"},
		{
			engine.TiDB, 9007, `Write conflict, txnStartTS=1, key={tableID=1, handle={1, hunter2}} [try again later]`,
			service.ErrBusy, "9007",
		},
		{engine.TiDB, 9005, `Region is unavailable`, service.ErrBusy, "9005"},
		{engine.TiDB, 3819, `Check constraint 'rate must be 0 to 1000000' is violated.`, service.ErrInvalid, "rate must be"},
	} {
		conn := &Conn{Engine: tc.engine, Shards: &Shards{Keyspace: "velocityd_buckets"}}
		err := conn.plain(&mysql.MySQLError{Number: tc.number, Message: tc.message})
		if text := err.Error(); strings.Contains(text, "hunter2") || !strings.Contains(text, tc.wants) {
			t.Errorf("%d %s: got %s, want %s and no value", tc.number, tc.message, text, tc.wants)
		}
		before := Unrecorded(err)
		if f := FaultOf(before); !errors.Is(f.Kind, tc.kind) || errors.Is(AsKind(f.Kind, before), service.ErrUndecided) {
			t.Errorf("%d %s: got kind %v, want %v", tc.number, tc.message, f.Kind, tc.kind)
		}
		isAway := errors.Is(AsKind(FaultOf(before).Kind, before), service.ErrAway)
		if want := errors.Is(tc.kind, service.ErrAway); isAway != want {
			t.Errorf("%d %s: away is %v, want %v: a circuit opens for it", tc.number, tc.message, isAway, want)
		}
	}
}

func TestFailedCommitIsUndecidedUnlessRolledBack(t *testing.T) {
	t.Parallel()
	conn := &Conn{Engine: engine.Vitess, Shards: &Shards{Keyspace: "velocityd_buckets"}}
	for number, undecided := range map[uint16]bool{
		1213: false, 8022: false, 9007: false, 1105: true, 2013: true,
		1317: true, 9005: true,
	} {
		err := conn.commitError(&mysql.MySQLError{Number: number, Message: "target: velocityd_buckets.-80.primary: it went"})
		kind := FaultOf(err).Kind
		told := AsKind(kind, err)
		if got := errors.Is(told, service.ErrUndecided); got != undecided || errors.Is(told, service.ErrBusy) == undecided {
			t.Errorf("%d: got %v, want it undecided (%v) or busy, and not both", number, told, undecided)
		}
	}
}

func TestErrorsLoseValuesAndKeepNames(t *testing.T) {
	t.Parallel()
	conn := &Conn{Engine: engine.MySQL}
	for message, c := range map[string]struct {
		number uint16
		want   string
	}{
		"Incorrect string value: '\\xE2' for column 'bucket_key' at row 1": {1366, "Incorrect string value"},
		"Truncated incorrect DOUBLE value: 'alice'":                        {1292, "Truncated incorrect DOUBLE value"},
		"You have an error in your SQL syntax near 'alice'' at line 1": {
			1064, "You have an error in your SQL syntax near",
		},
		"alice must not log in":                          {NumberSignal, "raised by SIGNAL"},
		"Data too long for column 'bucket_key' at row 1": {1406, "Data too long for column 'bucket_key' at row 1"},
		"INSERT command denied to user 'app'@'10.0.0.5' for table 'zone_txn'": {
			1142,
			"INSERT command denied to user 'app'@'10.0.0.5' for table 'zone_txn'",
		},
		"CONSTRAINT `rate` failed for `velocityd`.`zone_master`": {
			4025, "CONSTRAINT `rate` failed for `velocityd`.`zone_master`",
		},
		"bucket_key must be 1 to 255 characters": {NumberBadArgument, "bucket_key must be 1 to 255 characters"},
	} {
		told, _ := errors.AsType[*mysql.MySQLError](conn.plain(&mysql.MySQLError{Number: c.number, Message: message}))
		if told.Message != c.want || told.Number != c.number {
			t.Errorf("%d %s: %s", c.number, message, told.Message)
		}
	}
}
