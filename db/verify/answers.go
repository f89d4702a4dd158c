package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"velocityd/service/proof"
)

// answersAtOnce is how many attempt ids are looked up by one statement.
const answersAtOnce = 200

// verifyAnswers looks for the txns of each attempt id that is remembered. Ids are read in their order by pieces.
func (v *verifier) verifyAnswers(ctx context.Context) error {
	until := v.result.Until
	for last, isAll := "", false; !isAll; {
		var answers []proof.Answer
		n := 0
		err := each(ctx, v.on, fmt.Sprintf(`
SELECT HEX(attempt_id), attempt_id, %s, answer
  FROM zone_attempt
 WHERE attempt_id > X'%s'
   AND expires_at > '%s'
 ORDER BY attempt_id
 LIMIT %d`, microseconds("created_at"), last, until.Format(instantFormat), answersAtOnce), func(r reading) {
			n++
			last = r.text(0)
			a := proof.Answer{AttemptID: r.text(1), At: r.instant(2)}
			if err := a.Read(r.values[3]); err != nil {
				v.found(proof.Finding{Kind: proof.KindLost, At: a.At, Text: err.Error()})
			} else if !a.At.After(until) && !a.At.Before(v.kept) {
				answers = append(answers, a)
			}
		})
		if err != nil {
			return fmt.Errorf("attempts: %w", err)
		}
		if err := v.judgeAnswers(ctx, answers); err != nil {
			return err
		}
		isAll = n < answersAtOnce
	}
	return nil
}

// judgeAnswers looks up the txns of some answers: at the instants of the answers first, and then, for those that count
// in txns of earlier attempts, everywhere.
func (v *verifier) judgeAnswers(ctx context.Context, answers []proof.Answer) error {
	var at, anywhere []string
	for _, a := range answers {
		for _, v := range a.Verdicts {
			at = append(at, fmt.Sprintf("id = %d AND created_at = '%s'", v.TxnID, a.At.Format(instantFormat)))
		}
	}
	txns, err := v.named(ctx, at)
	if err != nil {
		return err
	}
	var missing []proof.Answer
	for _, a := range answers {
		v.result.Checked++
		if len(a.Judge(txns)) > 0 {
			missing = append(missing, a)
			for _, v := range a.Verdicts {
				anywhere = append(anywhere, fmt.Sprintf("id = %d", v.TxnID))
			}
		}
	}
	if txns, err = v.named(ctx, anywhere); err != nil {
		return err
	}
	for _, a := range missing {
		for _, f := range a.Judge(txns) {
			v.found(f)
		}
	}
	return v.failed
}

// named returns the txns that one of some conditions names.
func (v *verifier) named(ctx context.Context, conditions []string) (txns []proof.Row, err error) {
	if len(conditions) == 0 {
		return nil, nil
	}
	err = each(ctx, v.on, `
SELECT `+rowColumns+`
  FROM zone_txn
 WHERE `+strings.Join(conditions, " OR "), func(r reading) { txns = append(txns, r.row()) })
	if err != nil {
		return nil, fmt.Errorf("look up the txns of attempts: %w", err)
	}
	return txns, nil
}

// verifyHours compares the attempts of each hour with the last counts of the totals. They tell of rows
// that are gone. Hours of which retention may have removed rows are left out.
func (v *verifier) verifyHours(ctx context.Context) error {
	from := v.oldest
	for _, later := range []time.Time{v.Since.Add(time.Hour - 1), v.kept.Add(time.Hour - 1)} {
		if later.After(from) {
			from = later
		}
	}
	err := each(ctx, v.on, fmt.Sprintf(`
SELECT zone_id, %s, attempts, blocked, would_block, successes, failures
  FROM zone_hour
 WHERE final = TRUE
   AND hour >= '%s'
 ORDER BY hour, zone_id`, microseconds("hour"), from.Truncate(time.Hour).Format("2006-01-02 15:04:05")), func(r reading) {
		v.result.Hours++
		hour := proof.ZoneHour{ZoneID: r.int(0), Begin: r.instant(1)}
		counted := proof.Counts{
			Attempts: r.int(2), Blocked: r.int(3), WouldBlock: r.int(4), Successes: r.int(5), Failures: r.int(6),
		}
		if f, differs := v.hours.Judge(hour, counted); differs && !v.oldest.IsZero() {
			v.found(f)
		}
	})
	if err != nil {
		return fmt.Errorf("zone_hour: %w", err)
	}
	return v.failed
}
