// Package engine names the database engines, and knows an engine by its answers. It must not know the use
// of a database.
package engine

import (
	"errors"
	"strings"
)

// Engine is the kind of a database server.
type Engine string

// The engines. Auto stands for whichever the database says that it is.
const (
	Auto   Engine = "auto"
	MySQL  Engine = "mysql"  // MySQL or MariaDB: the procedures and triggers of package migrations are there
	Vitess Engine = "vitess" // vtgate in front of MySQL: buckets may lie on several shards
	TiDB   Engine = "tidb"
)

// HasRoutines reports whether the database has procedures and triggers. Elsewhere the service carries out everything by
// statements.
func (e Engine) HasRoutines() bool { return e == MySQL }

// BucketsSuffix stands behind the name of Vitess' unsharded keyspace, which the DSN names, in the
// name of the keyspace that holds the buckets on shards.
const BucketsSuffix = "_buckets"

// ErrSharded says that a DSN names the keyspace of the buckets, or another that is sharded. Tables
// would be looked for in the keyspace of that name with BucketsSuffix, and be made there.
var ErrSharded = errors.New("the DSN names a sharded keyspace of Vitess: name the unsharded one, " +
	"which is velocityd if the buckets are in velocityd" + BucketsSuffix)

// Of returns the engine that answers so to VERSION() and @@version_comment. It is MySQL unless the answers
// name another.
func Of(version, comment string) Engine {
	switch {
	case strings.Contains(version, "TiDB"):
		return TiDB
	case strings.Contains(version, "Vitess"), strings.Contains(strings.ToLower(comment), "vitess"):
		return Vitess
	}
	return MySQL
}
