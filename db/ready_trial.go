package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// obstacle is an error of something that a decision needs.
type obstacle struct {
	right  string // that the account needs
	object string // of the right
	way    string // that is impossible without it; empty for checks
	error
}

func (o obstacle) Unwrap() error { return o.error }

// trial is a packet of statements, each of which proves that something is there and may be used. Behind each
// that writes stands a SELECT, which is answered when it is done.
type trial struct{ session.Reading }

// look adds a statement that answers with rows, or with none, and a function for each row.
func (t *trial) look(statement string, row func([]driver.Value) error) {
	t.SQL(statement).SQL(";")
	t.AtLeast(0, row)
}

// read is each for rows that are not needed.
func (t *trial) read(statement string) { t.look(statement, func([]driver.Value) error { return nil }) }

// write adds statements that answer with no rows. None of them may hold a semicolon.
func (t *trial) write(statements *session.Packet) {
	for statement := range strings.SplitSeq(strings.TrimSuffix(string(statements.Text), ";"), ";") {
		t.read(statement + "; SELECT 1")
	}
}

// ask sends the packet. The error is an obstacle.
func (t *trial) ask(ctx context.Context, conn *session.Conn) error {
	text := string(t.Text)
	if err := t.Send(ctx, conn); err != nil {
		return obstacleIn(text, t.Answered, err)
	}
	return nil
}

// obstacleIn returns the obstacle of a packet of which so many statements with rows were answered before an error: what
// the next statement needs.
func obstacleIn(packet string, answered int, err error) obstacle {
	for statement := range strings.SplitSeq(packet, ";") {
		statement = strings.TrimPrefix(strings.TrimSpace(statement), explainInVitess)
		verb, _, _ := strings.Cut(statement, " ")
		switch {
		case answered > 0:
			if verb == "SELECT" {
				answered--
			}
		case verb == "CALL":
			return obstacle{right: "EXECUTE", object: "procedure " + session.NameBehind(statement, "CALL "), error: err}
		case strings.HasSuffix(statement, "FOR UPDATE SKIP LOCKED"):
			return obstacle{right: "SELECT, UPDATE", object: "table " + session.NameBehind(statement, "FROM "), error: err}
		default:
			table := session.NameBehind(
				statement, map[string]string{"SELECT": "FROM ", "DELETE": "FROM ", "INSERT": "INTO ", "UPDATE": "UPDATE "}[verb])
			if table != "" {
				return obstacle{right: verb, object: "table " + table, error: err}
			}
		}
	}
	return obstacle{error: err}
}

// unusedBucket returns a bucket that no other session names, of a zone that does not exist: a zone has an id of 1 or
// more. So conditions on it find no row, and lock none.
func unusedBucket() service.Bucket {
	id := rand.Uint64()
	return service.Bucket{Key: fmt.Sprintf("100::%x:%x:%x:%x", id>>48, id>>32&0xffff, id>>16&0xffff, id&0xffff)}
}

// trialBatch returns a batch of checks of one bucket each, whose zones do not exist and are taken to have all that a
// batch reads for.
func trialBatch(conn *session.Conn, buckets []service.Bucket) *batch {
	known, plans := newCache(seenGroup), map[int64]zonePlan{}
	checks := make([]service.Check, len(buckets))
	for i := range buckets {
		term := service.Term{Window: time.Hour}
		plans[buckets[i].ZoneID] = zonePlan{
			known: true, term: term, overridden: true, networks: true, lengths: []prefixLength{{buckets[i].ZoneID, 6, 64}},
			hasSeries: true, wholeRule: true, open: openPlan{1, time.Hour}, secrets: term,
		}
		checks[i] = service.Check{Buckets: buckets[i : i+1], AttemptID: buckets[i].Key, SecretHash: "doctor"}
	}
	known.learn(plans)
	b := newBatch(known, conn, service.Call{Checks: checks})
	b.now = known.now()
	return b
}

// tryLimits reads the zones and overrides of a decision. On engines with procedures it calls those that decide a
// lone check and, if reports is true, record outcomes: these begin transactions of their own.
func tryLimits(ctx context.Context, conn *session.Conn, reports bool) error {
	d := dialectOf(conn.Engine)
	if err := d.try(ctx, conn, checking); err != nil {
		return err
	}
	if reports {
		if err := d.try(ctx, conn, reporting); err != nil {
			return err
		}
	}
	b := trialBatch(conn, []service.Bucket{unusedBucket()})
	b.known.present = b.zoneIDs
	var r trial
	b.readZones(&r.Reading)
	b.readOverrides(&r.Reading)
	r.read("SELECT value FROM velocity_identity LIMIT 1")
	return r.ask(ctx, conn)
}

// tryBuckets sends all that a check and, if reports is true, a report reads and writes of buckets, and rolls back. No
// statement finds a row.
func tryBuckets(ctx context.Context, conn *session.Conn, buckets []service.Bucket, reports bool) error {
	var r trial
	b := trialBatch(conn, buckets)
	b.open(&r.Reading)
	lockFree, _ := b.dialect.lockFree()
	b.lock(&r.Reading, b.buckets, lockFree)
	b.readAttempts(&r.Reading)
	b.readSeries(&r.Reading)
	b.listTxns(&r.Reading)
	b.listOpen(&r.Reading)
	b.readImprints(&r.Reading)
	const columns = allTxnRowColumns + imprintColumn
	for part := range b.parts(b.buckets) {
		r.SQL("SELECT " + columns + ", outcome, uncounted_at" + fromCounted)
		r.Keys(part, nil)
		r.read(")")
	}
	ruling, written := b.emptyRuling(), new(session.Packet)
	b.updateLockouts(written, ruling)
	b.writeSeries(written, ruling)
	b.writeImprintKeys(written, ruling)
	b.dialect.forget(b, written, b.attemptIDs)
	b.dialect.repeat(b, written, ruling)
	if reports {
		b.dialect.writeTrial(b, written)
	}
	r.write(written)
	b.reset(&r.Packet)
	r.SQL("ROLLBACK")
	return r.ask(ctx, conn)
}

// emptyRuling is a ruling that changes rows of each bucket which do not exist.
func (b *batch) emptyRuling() *service.Ruling {
	ruling := &service.Ruling{
		Lockouts: map[service.Bucket]service.Lockout{}, Series: map[service.Bucket]service.Series{},
		Tried: map[service.Bucket]bool{},
	}
	for _, bucket := range b.buckets {
		ruling.Lockouts[bucket], ruling.Series[bucket] = service.Lockout{Until: b.now},
			service.Series{Began: b.now, TxnAt: b.now}
		ruling.Tried[bucket] = true
		ruling.Repeats = append(ruling.Repeats, service.Repeats{Bucket: bucket, TxnAt: b.now, Count: 1})
	}
	return ruling
}

// lastIDs looks for one of the last million ids of zone_txn, which are as good as none: at 10,000
// a second they are used up in two minutes.
const lastIDs = "SELECT id FROM zone_txn FORCE INDEX (PRIMARY) WHERE id > 18446744073708503039 LIMIT 1"

// tryRecording records an attempt of a bucket that no other session names, and takes it back. It finds what
// statements without rows hide, such as partitions that end in the past. A session that has locked rows beside those,
// such as a reader that locks the end of a table, holds up the recording, and may hold up no check at all. So one that
// waits for a lock, or does not end in time, proves nothing.
func (p *Probe) tryRecording(ctx context.Context, patience time.Duration) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.onConn(short, record)
	if session.IsNumber(err, session.NumberLockWait) || err != nil && short.Err() != nil {
		return nil
	}
	return err
}

// record records an attempt as a batch does, but for the id of the txn, and rolls back.
func record(ctx context.Context, conn *session.Conn) error {
	var r trial
	b := trialBatch(conn, []service.Bucket{unusedBucket()})
	bucket := b.buckets[0]
	b.open(&r.Reading)
	r.look(lastIDs, func([]driver.Value) error { return &UnreadyError{reason: noIDsLeft} })
	b.makeRows(&r.Reading, b.buckets)
	// With the newest txn's id and another time, the row goes to the place of the next txn, and uses up no id.
	written := new(session.Packet)
	written.SQL("INSERT INTO zone_txn (id, " + txnRowColumns + ") SELECT MAX(id), UTC_TIMESTAMP(6), ").Int(
		bucket.ZoneID).SQL(", ").
		Quote(bucket.Key).SQL(", FALSE, FALSE, TRUE, NULL FROM zone_txn HAVING MAX(id) IS NOT NULL;")
	b.rememberAttempts(written, &service.Ruling{Recorded: []int{0}, Decisions: []service.Decision{{
		CheckedAt: service.At(b.now), Verdicts: []service.Verdict{{Bucket: bucket}},
	}}})
	b.of[0].renewed = &tally{from: b.now, until: b.now, countedAt: b.now}
	b.writeTallies(written, &service.Ruling{})
	r.write(written)
	b.reset(&r.Packet)
	r.SQL("ROLLBACK")
	return r.ask(ctx, conn)
}

// readings returns the statements by which a batch reads, as a packet. The buckets are of two zones, because an engine
// looks a single row up before it says how it would.
func readings(conn *session.Conn) (packet string) {
	buckets := []service.Bucket{unusedBucket(), unusedBucket()}
	buckets[1].ZoneID--
	b := trialBatch(conn, buckets)
	for i := range b.of {
		b.of[i].hasSecret = false // imprints are looked for bucket by bucket
	}
	b.known.present, b.known.supposed = b.zoneIDs, b.now
	var r session.Reading
	b.lock(&r, b.buckets, ";")
	b.read(&r)
	return string(r.Text)
}
