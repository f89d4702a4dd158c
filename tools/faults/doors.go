//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/go-sql-driver/mysql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"velocityd/tools/enginetest/program"
)

// patience is how long a caller waits for an answer, above the deadline that the service gives.
const patience = 9 * time.Second

// door is a way to ask. It fills the answer of an attempt, and says how the call ended.
type door interface {
	name() string
	check(ctx context.Context, a *attempt) (state, error)
	report(ctx context.Context, c *change) (state, error)
}

// httpDoor is the HTTP interface of an instance, grpcDoor Envoy's Rate Limit Service there, and sqlDoor the public
// procedures.
type (
	httpDoor struct{ *instance }
	grpcDoor struct{ *instance }
	sqlDoor  struct{ *world }
)

func (d httpDoor) name() string { return "http-" + strconv.Itoa(d.number) }
func (d grpcDoor) name() string { return "grpc-" + strconv.Itoa(d.number) }
func (d sqlDoor) name() string  { return "sql" }

func (d httpDoor) check(ctx context.Context, a *attempt) (state, error) {
	question := map[string]any{"buckets": a.buckets}
	if a.name != "" {
		question["attempt_id"] = a.name
	}
	if a.secret != "" {
		question["secret_hash"] = a.secret
	}
	status, body, err := d.post(ctx, "/v1/check", question)
	if result, err := ofHTTP(status, body, err); result != acked {
		return result, err
	}
	var got struct {
		Blocked   bool
		Degraded  bool
		CheckedAt time.Time `json:"checked_at"`
		Buckets   []struct {
			answer

			Velocity *int
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return unknown, err
	}
	if a.blocked, a.at = got.Blocked, got.CheckedAt; got.Degraded {
		return degraded, nil
	}
	a.answers = nil
	for _, b := range got.Buckets {
		if b.velocity = -1; b.Velocity != nil {
			b.velocity = *b.Velocity
		}
		a.answers = append(a.answers, b.answer)
	}
	return acked, nil
}

func (d httpDoor) report(ctx context.Context, c *change) (state, error) {
	path, body := "", map[string]string{"outcome": c.kind}
	switch {
	case c.kind == "release":
		path = "/v1/zones/" + strconv.Itoa(c.buckets[0].Zone) + "/buckets/" + c.buckets[0].Key + "/release"
		body = map[string]string{"reason": "faults"}
	case c.attempt.name != "" && c.begin%2 == 0:
		path = "/v1/attempts/" + c.attempt.name + "/outcome"
	default:
		path = "/v1/txns/" + strconv.FormatUint(c.attempt.answers[0].Txn, 10) + "/outcome"
	}
	status, said, err := d.post(ctx, path, body)
	c.isLate = status == http.StatusConflict
	return ofHTTP(status, said, err)
}

func (d httpDoor) post(ctx context.Context, path string, body any) (status int, said []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	return program.Ask(ctx, http.MethodPost, "http://"+d.address+path, bytes.NewReader(text))
}

// ofHTTP reads a status by the table of errors in docs/auth-server.md.
func ofHTTP(status int, body []byte, err error) (state, error) {
	switch {
	case err != nil && isRefusedConnection(err):
		return refused, err
	case err != nil:
		return unknown, err
	case status == http.StatusOK:
		return acked, nil
	case status == http.StatusInternalServerError || status == http.StatusGatewayTimeout:
		return unknown, errors.New(string(body))
	}
	return refused, errors.New(string(body))
}

// isRefusedConnection says that nothing was sent.
func isRefusedConnection(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}

func (d grpcDoor) check(ctx context.Context, a *attempt) (state, error) {
	asked := &ratelimit.RateLimitRequest{Domain: "faults"}
	for _, b := range a.buckets {
		asked.Descriptors = append(asked.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "zone_" + strconv.Itoa(b.Zone), Value: b.Key}},
		})
	}
	asked.Descriptors[0].Entries = append(asked.Descriptors[0].Entries,
		&common.RateLimitDescriptor_Entry{Key: "attempt_id", Value: a.name})
	got, err := ratelimit.NewRateLimitServiceClient(d.grpc).ShouldRateLimit(ctx, asked)
	switch status.Code(err) {
	case codes.OK:
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition:
		return refused, err
	default: // Unavailable may also say that the connection broke
		return unknown, err
	}
	a.blocked = got.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT
	a.answers = nil
	for i, b := range a.buckets {
		a.answers = append(a.answers, answer{
			bucket: b, velocity: -1,
			WouldBlock: got.GetStatuses()[i].GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT,
		})
	}
	for _, h := range got.GetRequestHeadersToAdd() {
		if id, err := strconv.ParseUint(h.GetValue(), 10, 64); err == nil {
			a.answers[0].Txn = id
		}
	}
	return acked, nil
}

func (d grpcDoor) report(ctx context.Context, c *change) (state, error) {
	return httpDoor(d).report(ctx, c)
}

func (d sqlDoor) check(ctx context.Context, a *attempt) (state, error) {
	query, args := "CALL check_velocity(?, ?)", []any{a.buckets[0].Zone, a.buckets[0].Key}
	if a.name != "" {
		list, err := json.Marshal(a.buckets)
		if err != nil {
			return refused, err
		}
		query, args = "CALL check_velocity_buckets(?, ?)", []any{string(list), a.name}
	}
	rows, err := d.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return ofSQL(err), err
	}
	defer rows.Close()
	a.blocked, a.answers = false, nil
	for rows.Next() {
		var isBlocked bool
		var skip any
		var reason sql.NullString
		var velocity sql.NullInt64
		v := answer{velocity: -1}
		if err := rows.Scan(&isBlocked, &v.Txn, &v.Zone, &v.Key, &skip, &skip, &skip, &skip, &a.at, &v.WouldBlock, &velocity,
			&reason, &skip, &skip); err != nil {
			return unknown, err
		}
		if v.Reason = reason.String; velocity.Valid {
			v.velocity = int(velocity.Int64)
		}
		a.blocked = a.blocked || isBlocked
		a.answers = append(a.answers, v)
	}
	if err := rows.Err(); err != nil {
		return ofSQL(err), err
	}
	if len(a.answers) != len(a.buckets) {
		return unknown, errors.New("the procedure gave another number of rows")
	}
	return acked, nil
}

func (d sqlDoor) report(ctx context.Context, c *change) (state, error) {
	query, args := "CALL release_bucket(?, ?, 'faults', 'faults')", []any{c.buckets[0].Zone, c.buckets[0].Key}
	if c.attempt != nil {
		query, args = "CALL report_outcome(?, ?)", []any{c.attempt.txn(), c.kind}
	}
	_, err := d.sql.ExecContext(ctx, query, args...)
	const late = 45409
	var told *mysql.MySQLError
	c.isLate = errors.As(err, &told) && told.Number == late
	return ofSQL(err), err
}

// ofSQL reads an error by the table of the procedures' errors in docs/dba.md.
func ofSQL(err error) state {
	var told *mysql.MySQLError
	switch {
	case err == nil:
		return acked
	case !errors.As(err, &told):
		if isRefusedConnection(err) {
			return refused
		}
		return unknown
	}
	switch told.Number {
	case 45504, 1053, 1180, 1317, 1467, 1969, 3100: // recorded, a stop, COMMIT failed, KILL QUERY, the binary log
		return unknown
	}
	return refused
}
