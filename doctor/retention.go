package doctor

import (
	"fmt"
	"time"

	"velocityd/db"
)

// longUnretained is how old the last success of retention may be: its slowest task is due every twelve hours.
const longUnretained = 24 * time.Hour

// judgeRetention says whether old rows leave as the policy says.
func (d *Diagnoses) judgeRetention(i db.Inspection) {
	r := i.Retention
	const run = "let one instance run with --retention on, or cron run 'velocityd retain' (docs/retention.md)"
	switch last := r.SucceededAt(); {
	case !last.IsZero() && i.Now.Sub(last) > longUnretained:
		d.add(Warning, "retention", "no task has succeeded since "+last.Format(time.DateTime)+" UTC", run)
	case last.IsZero() && !i.FirstTxn.IsZero() && i.Now.Sub(i.FirstTxn) > longUnretained:
		d.add(Warning, "retention", "it has never run, and the oldest txn is from "+i.FirstTxn.Format(time.DateTime)+" UTC", run)
	}
	for _, task := range r.Tasks {
		switch {
		case task.Error != "":
			d.add(Warning, "retention", "the last run of "+task.Name+" failed: "+task.Error,
				"remove the cause; it is tried again every minute (docs/retention.md)")
		case task.Backlog:
			d.add(Note, "retention", task.Name+" has left work for its next run",
				"nothing, unless this stays for days: then the engine is too busy for it")
		}
	}
	if r.KeepDays > 0 && r.KeepDays < r.MinimumDays {
		d.add(Note, "retention", fmt.Sprintf("keep_days is %d, and txns are kept for minimum_days, %d", r.KeepDays, r.MinimumDays),
			"set keep_days to minimum_days or more; only the owner of the schema may lower minimum_days")
	}
	d.otherwise("retention", "no task has failed or is overdue")
}
