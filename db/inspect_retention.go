package db

import (
	"context"
	"database/sql/driver"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Retention holds the policy by which old rows leave, and the last runs. It is empty if the account may not read them.
type Retention struct {
	// KeepDays and MinimumDays are those of retention_policy.
	KeepDays, MinimumDays int64
	// Tasks have no times but SucceededAt.
	Tasks []service.RetentionTask
}

// SucceededAt is when any task succeeded last; zero if none ever has.
func (r Retention) SucceededAt() (last time.Time) {
	for _, task := range r.Tasks {
		if task.SucceededAt.After(last) {
			last = task.SucceededAt
		}
	}
	return last
}

func (i *Inspection) readRetention(ctx context.Context, conn *session.Conn) error {
	var r session.Reading
	r.SQL("SELECT keep_days, minimum_days FROM retention_policy WHERE id = 1;")
	r.Each(2, func(row []driver.Value) error {
		i.Retention.KeepDays, i.Retention.MinimumDays = session.AsInt(row[0]), session.AsInt(row[1])
		return nil
	})
	r.SQL("SELECT name, error, backlog, succeeded_at FROM retention_task ORDER BY name")
	r.Each(4, func(row []driver.Value) (err error) {
		task := service.RetentionTask{Name: session.Text(row[0]), Error: session.Text(row[1]), Backlog: session.AsInt(row[2]) != 0}
		task.SucceededAt, err = session.AsInstant(row[3])
		i.Retention.Tasks = append(i.Retention.Tasks, task)
		return err
	})
	if err := r.Send(ctx, conn); err != nil && !isHidden(err) {
		return err
	}
	return nil
}
