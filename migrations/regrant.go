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

// keepsGrants puts the grants on a procedure or function back, which MySQL drops together
// with it.
type keepsGrants struct {
	statements []string
}

// noteGrants reads the grants on a procedure or function. isHidden means that the account may not see it.
func noteGrants(ctx context.Context, conn *sql.Conn, r Routine) (kept keepsGrants, isHidden bool, err error) {
	err = query(ctx, conn, func(rows *sql.Rows) error {
		var account Account
		var privileges, self string
		if err := rows.Scan(&account.User, &account.Host, &privileges, &self); err != nil {
			return err
		}
		if self == account.User+"@"+account.Host {
			return nil // MySQL itself grants these to whoever makes the routine
		}
		kept.statements = append(kept.statements, regrant(r, account, privileges))
		return nil
	}, "SELECT user, host, proc_priv, CURRENT_USER() FROM mysql.procs_priv WHERE db = DATABASE() AND proc_priv <> '' "+
		"AND routine_type = '"+r.Kind+"' AND routine_name = '"+r.Name+"'")
	var engine *mysql.MySQLError
	if errors.As(err, &engine) && slices.Contains(refusals(), engine.Number) {
		return keepsGrants{}, true, nil
	}
	if err != nil {
		return keepsGrants{}, false, fmt.Errorf("read the grants on %s: %w", r, err)
	}
	return kept, false, nil
}

// regrant writes the GRANT of a row of mysql.procs_priv.
func regrant(r Routine, account Account, privileges string) string {
	list := strings.Split(strings.ToUpper(privileges), ",")
	option := ""
	if at := slices.Index(list, "GRANT"); at >= 0 {
		list, option = slices.Delete(list, at, at+1), " WITH "+grantOption
	}
	if len(list) == 0 {
		list = []string{"USAGE"}
	}
	quote := strings.NewReplacer(`\`, `\\`, "'", "''")
	return "GRANT " + strings.Join(list, ", ") + " ON " + r.Kind + " " + r.Name +
		" TO '" + quote.Replace(account.User) + "'@'" + quote.Replace(account.Host) + "'" + option
}
