package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"velocityd/service"
)

// ParseAnswer reads zone_attempt.answer: an array for each bucket, of zone_id,
// bucket_key, blocked, would_block, txn_id, rate, window, velocity, remaining,
// retry_after, reason, override_id and reset_after. velocity and remaining are null where no limit decided.
func ParseAnswer(answer []byte, d *service.Decision) error {
	var rows [][]json.RawMessage
	if err := json.Unmarshal(answer, &rows); err != nil {
		return errors.New("read answer of an attempt: it is no list of lists") // err would quote it
	}
	if len(rows) == 0 {
		return errors.New("read answer of an attempt: it names no bucket")
	}
	for _, row := range rows {
		v, err := parseVerdict(row)
		if err != nil {
			return fmt.Errorf("read answer of an attempt: %w", err)
		}
		d.Blocked, d.WouldBlock = d.Blocked || v.Blocked, d.WouldBlock || v.WouldBlock
		d.Verdicts = append(d.Verdicts, v)
	}
	return nil
}

func parseVerdict(row []json.RawMessage) (v service.Verdict, err error) {
	const members, txnID, velocity, remaining, reason, overrideID = 13, 4, 7, 8, 10, 11
	most := [members]uint64{2: 1, 3: 1, txnID: math.MaxInt64, overrideID: math.MaxUint64}
	if len(row) != members {
		return v, fmt.Errorf("%d members, want %d", len(row), members)
	}
	var numbers [members]uint64
	for i, member := range row {
		var target any = &numbers[i]
		switch i {
		case 1:
			target = &v.Bucket.Key
		case reason:
			target = &v.Reason
		case velocity, remaining:
			if v.Unmetered = string(row[velocity]) == "null" && string(row[remaining]) == "null"; v.Unmetered {
				continue
			}
		}
		if err := json.Unmarshal(member, target); err != nil {
			return v, fmt.Errorf("member %d is of another kind", i) // err would quote it
		}
		// A number of seconds must fit into a time.Duration.
		if string(member) == "null" || numbers[i] > cmp.Or(most[i], uint64(math.MaxInt64/time.Second)) {
			return v, fmt.Errorf("member %d is out of range", i)
		}
	}
	v.Bucket.ZoneID = int64(numbers[0])
	v.Blocked, v.WouldBlock, v.TxnID = numbers[2] != 0, numbers[3] != 0, numbers[txnID]
	v.Rate, v.Window.Duration = int(numbers[5]), service.Seconds(int64(numbers[6]))
	v.OverrideID, v.ResetAfter.Duration = numbers[overrideID], service.Seconds(int64(numbers[12]))
	if isOwn := v.Reason != "" && v.Reason != service.ReasonElsewhere; isOwn != v.WouldBlock || isOwn &&
		!slices.Contains(service.Reasons(), v.Reason) {
		return v, fmt.Errorf("would_block is %v and the reason %.40q", v.WouldBlock, v.Reason)
	}
	v.Velocity, v.RetryAfter.Duration = int(numbers[velocity]), service.Seconds(int64(numbers[9]))
	return v, nil
}
