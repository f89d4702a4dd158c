package db

import (
	"context"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

// dialect is how a Store works on one engine. MySQL and MariaDB have the procedures of package
// migrations: see mysql.go. What Vitess and TiDB have in common, which have none, is in portable.go,
// and the rest in vitess.go and tidb.go. The settings of their sessions differ besides: see db/session.
type dialect interface {
	// decideAlone decides a check of one bucket by a procedure, or returns errNoProcedure where there is none. If waits is
	// false, a bucket that another session holds is service.ErrHeld.
	decideAlone(ctx context.Context, conn *session.Conn, check service.Check, waits bool) (service.Decision, error)
	// release does the work of Store.Release.
	release(ctx context.Context, s *Store, bucket service.Bucket, principal, reason string) error
	// report does the work of Store.ReportAll.
	report(ctx context.Context, s *Store, reports []service.Report) ([]service.ReportStatus, error)

	// lacking returns which of the buckets at some places have no lock row, or all of these places
	// where no statement tells that without waiting. It does not wait.
	lacking(ctx context.Context, b *batch, places []int) ([]int, error)
	// lockFree ends a SELECT that locks the free rows, and skips the others. Where no SELECT
	// skips rows, clause only reads, and to make a row is to lock it.
	lockFree() (clause string, skips bool)
	bounds() bounds

	// record sends the packet that records a ruling after so many other statements, and commits. It
	// returns the first txn's id, if there is any.
	record(ctx context.Context, b *batch, r *session.Reading, before int, ruling *service.Ruling) (first uint64, err error)
	// repeat writes that earlier txns stand for more attempts, and returns how many statements that takes.
	repeat(b *batch, p *session.Packet, ruling *service.Ruling) (statements int)
	// attemptColumns are the columns of zone_attempt that a batch writes, and writeAttemptBucket writes the
	// value of the one that has the key of one of the check's buckets, if there is such a column.
	attemptColumns() string
	writeAttemptBucket(b *batch, p *session.Packet, check service.Check)
	// forget deletes the rows of attempt ids that have expired.
	forget(b *batch, p *session.Packet, ids []string)

	// try goes one of the service's ways, as far as it is not a batch, and changes nothing.
	try(ctx context.Context, conn *session.Conn, of way) error
	// writeTrial writes the changes of reports, of txns that do not exist, as far as they are not a procedure's.
	writeTrial(b *batch, p *session.Packet)
}

// way is a way of the service into the database.
type way uint8

const (
	checking way = iota
	reporting
	releasing
)

// bounds are an engine's rules for ids and for the length of answers.
type bounds struct {
	// idStep is the distance between the ids of rows that one INSERT makes, as an expression.
	idStep string
	// mostRows is how many rows the engine answers with at most; 0 means any number.
	mostRows int
	// idsTellTime says that later txns have higher ids. Where several servers give ids in advance, they do not.
	idsTellTime bool
}

func dialectOf(e engine.Engine) dialect {
	switch e {
	case engine.Vitess:
		return vitessDialect{}
	case engine.TiDB:
		return tidbDialect{}
	}
	return mysqlDialect{}
}
