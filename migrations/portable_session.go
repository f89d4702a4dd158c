package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
)

// portable is a database that has, or is to have, the portable tables.
type portable struct {
	engine engine.Engine
	conn   *sql.Conn
	name   string // the database's or, behind vtgate, the unsharded keyspace's
}

// errNoChecks says that TiDB would leave the CHECKs of new tables out.
var errNoChecks = errors.New("TiDB keeps no CHECK constraints as it is set, so a zone could get any rate: " +
	"let an administrator run SET GLOBAL tidb_enable_check_constraint = ON, which must stay, and start again")

// onPortable connects, does one thing under the lock of migrations and lets go.
func onPortable(ctx context.Context, e engine.Engine, dsn string, do func(portable) error) error {
	db, name, err := openWith(dsn, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := portable{engine: e, conn: conn, name: name}
	if err := p.refuseSharded(ctx); err != nil {
		return err
	}
	return alone(ctx, conn, name, func() error { return do(p) })
}

// enter makes the database of a group's tables the session's own, and returns the names of
// its tables.
func (p portable) enter(ctx context.Context, of group) (tables []string, err error) {
	if err := p.exec(
		ctx, Action{What: "use " + p.keyspace(of), Statement: "USE " + QuoteName(p.keyspace(of))}); err != nil {
		return nil, err
	}
	if tables, err = Column(ctx, p.conn, "SHOW TABLES"); err != nil {
		return nil, p.explain(Action{}, fmt.Errorf("list the tables of %s: %w", p.keyspace(of), withoutStatement(err)))
	}
	return tables, nil
}

func (p portable) keyspace(of group) string {
	if p.engine == Vitess && of == buckets {
		return p.name + engine.BucketsSuffix
	}
	return p.name
}

// version returns the noted version, or 0.
func (p portable) version(ctx context.Context) (version uint, dirty bool, err error) {
	tables, err := p.enter(ctx, limits)
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

// exec carries out one statement, whose text is not part of the error.
func (p portable) exec(ctx context.Context, a Action) error {
	_, err := p.changed(ctx, a)
	return err
}

// changed is exec, and returns how many rows were changed.
func (p portable) changed(ctx context.Context, a Action) (rows int64, err error) {
	result, err := p.conn.ExecContext(ctx, a.Statement)
	if err == nil {
		rows, err = result.RowsAffected()
	}
	if err != nil {
		return 0, p.explain(a, fmt.Errorf("%s: %w", a.What, withoutStatement(err)))
	}
	return rows, nil
}

// explain adds known advice to an error.
func (p portable) explain(a Action, err error) error {
	if advice := cmp.Or(p.vitessAdvice(a, err), rightsAdvice(err)); advice != "" {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// withoutStatement cuts off the statement with its values, which vtgate and vttablet put behind an error.
func withoutStatement(err error) error {
	var engine *mysql.MySQLError
	if !errors.As(err, &engine) {
		return err
	}
	short, _, _ := strings.Cut(engine.Message, " (CallerID: ")
	short, _, _ = strings.Cut(short, ": Sql: ")
	return &mysql.MySQLError{Number: engine.Number, SQLState: engine.SQLState, Message: short}
}

// QuoteName writes a name for SQL.
func QuoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func has(list []string, name string) bool { return slices.Contains(list, name) }
