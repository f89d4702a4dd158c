//go:build linux

package program

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/go-sql-driver/mysql" // the driver

	"velocityd/db/localdb"
)

// StartEngine starts a private engine, such as mariadb-11.8, on a folder.
func StartEngine(ctx context.Context, engine, dir string, args ...string) (*localdb.Server, error) {
	binary, err := localdb.Find(ctx, localdb.Engine(engine))
	if err != nil {
		return nil, err
	}
	return localdb.Start(ctx, localdb.Options{Dir: dir, Binary: binary, Args: args})
}

// KillEngine ends an engine as kill -9 does.
func KillEngine(server *localdb.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(ctx)
}

// OpenRoot returns connections of an engine's administrator to a database; none if it is empty.
func OpenRoot(socket, database string) (*sql.DB, error) {
	return sql.Open("mysql", "root@unix("+socket+")/"+database+"?parseTime=true&interpolateParams=true")
}

// ExecAll carries out statements up to the first that fails.
func ExecAll(ctx context.Context, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) error {
	for _, s := range statements {
		if _, err := on.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}
