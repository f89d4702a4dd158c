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

// Old is a task that removes rows which nothing needs any more, once an hour.
type Old struct {
	Title string
	// Rows returns the rows that leave. They need no procedure, because the service's account may delete them.
	Rows func(ctx context.Context, on *sqlx.Conn) ([]OldRows, error)
}

var _ Forecaster = Old{}

// OldRows are the rows that a clause behind FROM chooses, and the word for them.
type OldRows struct {
	What, From string
	Args       []any
}

// Name implements Task.
func (o Old) Name() string { return o.Title }

// Every implements Task.
func (Old) Every() time.Duration { return time.Hour }

// Run implements Task.
func (o Old) Run(ctx context.Context, on *sqlx.Conn, _ string) (all Result, err error) {
	list, err := o.Rows(ctx, on)
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
}

func (rows OldRows) remove(ctx context.Context, on *sqlx.Conn) (int64, error) {
	n, err := exec(ctx, on, "DELETE FROM "+rows.From+" LIMIT "+strconv.Itoa(removedAtOnce), rows.Args...)
	if err != nil {
		return 0, fmt.Errorf("remove old %s: %w", rows.What, err)
	}
	return n, nil
}

// Expect implements Forecaster.
func (o Old) Expect(ctx context.Context, on *sqlx.Conn) (list []Leaving, err error) {
	all, err := o.Rows(ctx, on)
	for _, rows := range all {
		leaving, err := Leaving{Task: o.Title, What: rows.What}.Count(ctx, on, rows.From, rows.Args...)
		if err != nil {
			return nil, err
		}
		list = append(list, leaving...)
	}
	return list, err
}
