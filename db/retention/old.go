package retention

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
)

// removedAtOnce is how many rows one statement removes.
const removedAtOnce = 1000

// Old returns a task that removes rows which nothing needs any more, once an hour. rows returns those that leave. They
// need no procedure, because the service's account may delete them.
func Old(name string, rows func(ctx context.Context, on *sqlx.Conn) ([]OldRows, error)) Task {
	return Task{
		Name: name, Every: time.Hour,
		Run: func(ctx context.Context, on *sqlx.Conn, _ string) (all Result, err error) {
			list, err := rows(ctx, on)
			end := time.Now().Add(Budget)
			for _, rows := range list {
				for more := true; more && err == nil; {
					if all.Backlog = time.Now().After(end); all.Backlog {
						return all, nil
					}
					var n int64
					n, err = rows.remove(ctx, on)
					all.Removed, more = all.Removed+n, n == removedAtOnce
				}
			}
			return all, err
		}, Expect: func(ctx context.Context, on *sqlx.Conn) (list []Leaving, err error) {
			all, err := rows(ctx, on)
			for _, rows := range all {
				leaving, err := rows.count(ctx, on)
				if err != nil {
					return nil, err
				}
				list = append(list, leaving...)
			}
			return list, err
		},
	}
}

// OldRows are the rows that a clause behind FROM chooses, and the word for them.
type OldRows struct {
	What, From string
	Args       []any
}

func (rows OldRows) remove(ctx context.Context, on *sqlx.Conn) (int64, error) {
	n, err := exec(ctx, on, "DELETE FROM "+rows.From+" LIMIT "+strconv.Itoa(removedAtOnce), rows.Args...)
	if err != nil {
		return 0, fmt.Errorf("remove old %s: %w", rows.What, err)
	}
	return n, nil
}

func (rows OldRows) count(ctx context.Context, on *sqlx.Conn) ([]Leaving, error) {
	return count(ctx, on, rows.What, rows.From, rows.Args...)
}
