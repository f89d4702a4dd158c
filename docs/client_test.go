package docs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the engine's protocol
)

// clientSetup is what a world tells the client that its shell lines run.
type clientSetup struct {
	Names
	DSN map[string]string // by account
}

// runClient is the part of the mysql client that the pages use: -e or standard
// input, --user and --batch. It prints rows with tabs between, below their names.
func runClient(args []string) error {
	var setup clientSetup
	if err := json.Unmarshal([]byte(os.Getenv(asClient)), &setup); err != nil {
		return fmt.Errorf("read the client's setup: %w", err)
	}
	account, text, names := "root", "", true
	for i, arg := range args {
		switch name, value, _ := strings.Cut(arg, "="); {
		case name == "--user":
			account = value
		case arg == "--skip-column-names":
			names = false
		case arg == "-e" && i+1 < len(args):
			text = args[i+1]
		}
	}
	if text == "" {
		all, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		text = string(all)
	}
	dsn, ok := setup.DSN[account]
	if !ok {
		return fmt.Errorf("no account %q", account)
	}
	pool, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	ctx := context.Background()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, s := range statements(text) {
		for _, one := range strings.Split(s.text, ";") { // -e has several in a line
			if strings.TrimSpace(one) == "" {
				continue
			}
			if err := query(ctx, conn, setup.rename(one), os.Stdout, names); err != nil {
				return err
			}
		}
	}
	return nil
}

// query runs one statement to its end, whatever it answers with, and prints its
// rows, below the names of their columns if these are wanted.
func query(ctx context.Context, conn *sql.Conn, text string, out io.Writer, withNames bool) error {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		if withNames && len(names) > 0 {
			fmt.Fprintln(out, strings.Join(names, "\t"))
		}
		for rows.Next() {
			values := make([]sql.NullString, len(names))
			into := make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			texts := make([]string, len(names))
			for i, value := range values {
				texts[i] = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\x00", `\0`).Replace(value.String)
				if !value.Valid {
					texts[i] = "NULL"
				}
			}
			fmt.Fprintln(out, strings.Join(texts, "\t"))
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(fmt.Errorf("%s", text), err)
	}
	return nil
}
