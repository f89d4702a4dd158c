package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The folders of the portable tables. Behind vtgate, those of limitsFolder are in the
// unsharded keyspace that the DSN names, and those of bucketsFolder in the sharded one beside
// it. Elsewhere all are in one database.
const (
	limitsFolder  = "limits"
	bucketsFolder = "buckets"
	vitessFolder  = "vitess" // what there is behind vtgate alone; in the unsharded keyspace
)

// bucketsSuffix makes the name of the sharded keyspace from that of the unsharded one.
const bucketsSuffix = "_buckets"

// portableTable is one of the tables for engines without procedures.
type portableTable struct {
	name, folder string
	// statement creates the table if it is not there. It begins with the file's comment.
	statement string
}

// unsharded finds what a portable text has only where there are no shards. For vtgate it is a
// comment like any other.
var unsharded = regexp.MustCompile(`/\*U! (.*?) \*/`)

// portableTables returns the tables that an engine needs, in the order in which they can be
// created.
func portableTables(e Engine) ([]portableTable, error) {
	folders := []string{limitsFolder, bucketsFolder}
	if e == Vitess {
		folders = []string{limitsFolder, vitessFolder, bucketsFolder}
	}
	var list []portableTable
	for _, folder := range folders {
		files, err := fs.Glob(texts, path.Join("portable", folder, "*.sql"))
		if err != nil {
			return nil, fmt.Errorf("list portable tables: %w", err)
		}
		for _, file := range files {
			content, err := readText(file)
			if err != nil {
				return nil, err
			}
			statement := string(content)
			if e != Vitess {
				statement = unsharded.ReplaceAllString(statement, "$1")
			}
			list = append(list, portableTable{strings.TrimSuffix(path.Base(file), ".sql"), folder, statement})
		}
	}
	// A foreign key needs its table first: zone_master comes before zone_override by its name.
	return list, nil
}

// portable is a database that has, or is to have, the portable tables.
type portable struct {
	engine Engine
	conn   *sql.Conn
	name   string // the database's or, behind vtgate, the unsharded keyspace's
}

// upPortable is Up.
func (e Engine) upPortable(ctx context.Context, dsn string) (Change, error) {
	var done Change
	err := e.onPortable(ctx, dsn, func(p portable) error {
		version, _, err := p.version(ctx)
		if err != nil {
			return err
		}
		done = Change{From: version, To: version}
		if version > Latest() {
			return nil
		}
		if done.Tables, err = p.makeTables(ctx); err != nil {
			return err
		}
		if version == Latest() {
			return nil
		}
		done.To = Latest()
		return p.noteVersion(ctx, done.To)
	})
	return done, err
}

// onPortable connects, does one thing under the lock of migrations and lets go.
func (e Engine) onPortable(ctx context.Context, dsn string, do func(portable) error) error {
	db, name, err := openWith(dsn, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	defer conn.Close()
	p := portable{engine: e, conn: conn, name: name}
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock(ctx)
	return do(p)
}

// makeTables creates the tables that are not there, and returns their names.
func (p portable) makeTables(ctx context.Context) (made []string, err error) {
	tables, err := portableTables(p.engine)
	if err != nil {
		return nil, err
	}
	var have []string
	folder := ""
	for _, table := range tables {
		if table.folder != folder {
			folder = table.folder
			if have, err = p.enter(ctx, folder); err != nil {
				return made, err
			}
		}
		if slices.Contains(have, table.name) {
			continue
		}
		if err := p.exec(ctx, "create table "+table.name, table.statement); err != nil {
			return made, err
		}
		made = append(made, table.name)
	}
	return made, nil
}
