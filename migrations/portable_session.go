package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// lock waits until no other migration of this database is under way, for 10 seconds.
func (p portable) lock(ctx context.Context) error {
	var got sql.Null[int64]
	if err := p.conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+p.lockName()+"', 10)").Scan(&got); err != nil {
		return fmt.Errorf("prepare migration: %w", err)
	}
	if got.V != 1 {
		return errors.New("prepare migration: another migration is under way, and was waited for in vain for 10 seconds")
	}
	return nil
}

// unlock lets the next migration begin. The end of the connection would do it, too.
func (p portable) unlock(ctx context.Context) {
	_, _ = p.conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK('"+p.lockName()+"')")
}

// lockName is as long as a lock's name may be, whatever the database is called.
func (p portable) lockName() string {
	const longest = 64
	name := "velocityd migrate " + strings.ReplaceAll(p.name, "'", "")
	return name[:min(len(name), longest)]
}

// enter makes the database of a folder's tables the session's own, and returns the names of
// its tables.
func (p portable) enter(ctx context.Context, folder string) (tables []string, err error) {
	if err := p.exec(ctx, "use "+p.keyspace(folder), "USE "+quoteName(p.keyspace(folder))); err != nil {
		return nil, p.explainKeyspace(folder, err)
	}
	err = query(ctx, p.conn, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		tables = append(tables, name)
		return nil
	}, "SHOW TABLES")
	if err != nil {
		return nil, p.explainKeyspace(folder, fmt.Errorf("list the tables of %s: %w", p.keyspace(folder), err))
	}
	return tables, nil
}

// keyspace is where the tables of a folder are.
func (p portable) keyspace(folder string) string {
	if p.engine == Vitess && folder == bucketsFolder {
		return p.name + bucketsSuffix
	}
	return p.name
}

// version returns the version that is noted; 0 if there is none.
func (p portable) version(ctx context.Context) (version uint, dirty bool, err error) {
	tables, err := p.enter(ctx, limitsFolder)
	if err != nil {
		return 0, false, err
	}
	if !has(tables, "schema_migrations") {
		return 0, false, nil
	}
	var noted int64
	err = p.conn.QueryRowContext(ctx, "SELECT version, dirty FROM schema_migrations").Scan(&noted, &dirty)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, false, fmt.Errorf("read schema version: %w", err)
	}
	return uint(max(noted, 0)), dirty, nil
}

// noteVersion notes the version in place of the one before.
func (p portable) noteVersion(ctx context.Context, version uint) error {
	if _, err := p.enter(ctx, limitsFolder); err != nil {
		return err
	}
	tx, err := p.conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("note version %d: %w", version, err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{
		"DELETE FROM schema_migrations",
		fmt.Sprintf("INSERT INTO schema_migrations (version, dirty) VALUES (%d, FALSE)", version),
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("note version %d: %w", version, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("note version %d: %w", version, err)
	}
	return nil
}

// exec carries out one statement, whose text is not part of the error.
func (p portable) exec(ctx context.Context, what, statement string) error {
	if _, err := p.conn.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", what, withoutStatement(err))
	}
	return nil
}

// withoutStatement cuts off what vtgate and vttablet put behind an error: the statement and its
// values.
func withoutStatement(err error) error {
	var engine *mysql.MySQLError
	if !errors.As(err, &engine) {
		return err
	}
	short, _, _ := strings.Cut(engine.Message, " (CallerID: ")
	short, _, _ = strings.Cut(short, ": Sql: ")
	return &mysql.MySQLError{Number: engine.Number, SQLState: engine.SQLState, Message: short}
}

func has(list []string, name string) bool { return slices.Contains(list, name) }

// explainKeyspace says what to do if a keyspace is not there.
func (p portable) explainKeyspace(folder string, err error) error {
	var engine *mysql.MySQLError
	if p.engine != Vitess || !errors.As(err, &engine) || engine.Number != errNoDatabase {
		return err
	}
	return fmt.Errorf("%w: make the keyspace first: vtctldclient CreateKeyspace %s, with its shards", err, p.keyspace(folder))
}
