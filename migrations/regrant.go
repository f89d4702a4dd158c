package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// grantsOn returns the statements that put the grants on a procedure or function back, which MySQL drops
// together with it. isHidden means that the account may not see them.
func grantsOn(ctx context.Context, conn *sql.Conn, r Routine) (statements []string, isHidden bool, err error) {
	err = query(ctx, conn, func(rows *sql.Rows) error {
		var user, host, privileges, self string
		if err := rows.Scan(&user, &host, &privileges, &self); err != nil {
			return err
		}
		if self == user+"@"+host {
			return nil // MySQL itself grants these to the account that makes the routine
		}
		statements = append(statements, regrant(r, user, host, privileges))
		return nil
	}, "SELECT user, host, proc_priv, CURRENT_USER() FROM mysql.procs_priv WHERE db = DATABASE() AND proc_priv <> '' "+
		"AND routine_type = '"+r.Kind+"' AND routine_name = '"+r.Name+"'")
	if IsRefused(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the grants on %s: %w", r, err)
	}
	return statements, false, nil
}

func regrant(r Routine, user, host, privileges string) string {
	list := strings.Split(strings.ToUpper(privileges), ",")
	option := ""
	if at := slices.Index(list, "GRANT"); at >= 0 {
		list, option = slices.Delete(list, at, at+1), " WITH GRANT OPTION"
	}
	if len(list) == 0 {
		list = []string{"USAGE"}
	}
	quote := strings.NewReplacer(`\`, `\\`, "'", "''")
	return "GRANT " + strings.Join(list, ", ") + " ON " + r.Kind + " " + r.Name +
		" TO '" + quote.Replace(user) + "'@'" + quote.Replace(host) + "'" + option
}
