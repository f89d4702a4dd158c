package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"velocityd/service"
)

// keysNamed is how many keys of a zone the summary names.
const keysNamed = 10

// tally counts the answers.
type tally struct {
	allowed, blocked, skipped int
	keyless                   int // skipped lines that are attempts, but whose user and address cannot be keys
	partly                    int // attempts that were asked in one of two zones, because the other cannot have their key
	wouldBlock                int // blocked attempts, and those allowed only because a full zone is not enforced
	reported                  map[service.Outcome]int
	keys                      map[service.Bucket]int // how often each bucket had no room
	reasons                   map[service.Reason]int // why
}

func newTally() *tally {
	return &tally{reported: map[service.Outcome]int{}, keys: map[service.Bucket]int{}, reasons: map[service.Reason]int{}}
}

// count adds decisions and returns the first refusal among them.
func (t *tally) count(decisions []service.Decision) error {
	var refused error
	for _, d := range decisions {
		switch {
		case d.Err != nil:
			refused = cmp.Or(refused, d.Err)
			continue
		case d.Blocked:
			t.blocked++
		default:
			t.allowed++
		}
		if d.WouldBlock {
			t.wouldBlock++
		}
		for _, v := range d.Verdicts {
			if v.WouldBlock {
				t.keys[v.Bucket]++
				t.reasons[v.Reason]++
			}
		}
	}
	return refused
}

// countReports adds the reports that were accepted and returns the first refusal.
func (t *tally) countReports(reports []service.Report, results []error) error {
	var refused error
	for i, err := range results {
		if err == nil {
			t.reported[reports[i].Outcome]++
			continue
		}
		refused = cmp.Or(refused, fmt.Errorf("report outcome of txn %d: %w", reports[i].TxnID, err))
	}
	return refused
}

// nothing returns an error that wraps ErrNoAttempt and says why nothing was asked, or
// nil if something was.
func (r *Replayer) nothing() error {
	t := r.tally
	switch {
	case t.allowed+t.blocked > 0:
		return nil
	case t.skipped == 0:
		return fmt.Errorf("%w: the log is empty", ErrNoAttempt)
	case t.keyless > 0:
		return fmt.Errorf("%w that can be asked about: of its %d lines %d are attempts, and each has a user or an address "+
			"that cannot be a key in its zone", ErrNoAttempt, t.skipped, t.keyless)
	case r.reader.unread > 0:
		return fmt.Errorf("%w that could be read: %w", ErrNoAttempt, r.reader.notRead())
	case r.reader.binary:
		return fmt.Errorf("%w: it is no text; unpack it first if it is compressed in another way than by gzip", ErrNoAttempt)
	}
	return fmt.Errorf("%w: its %d lines hold no login that sshd accepted or refused", ErrNoAttempt, t.skipped)
}

// Summary is the result of a replay.
type Summary struct {
	Attempts int `json:"attempts"`
	Allowed  int `json:"allowed"`
	Blocked  int `json:"blocked"`
	// WouldBlock counts the attempts that would be blocked if every zone in
	// shadow mode were enforced; Blocked ones are among them.
	WouldBlock int `json:"would_block"`
	// Reasons count the buckets without room, of which an attempt may have two, by why they had none.
	Reasons map[service.Reason]int `json:"reasons"`
	// PartlyAsked counts the attempts that were asked in one of two zones, because their
	// user or address cannot be a key in the other.
	PartlyAsked  int `json:"partly_asked"`
	SkippedLines int `json:"skipped_lines"` // lines that added no attempt
	// UnreadAttempts counts the skipped lines that look like attempts and could not be
	// read. FirstUnread is the first of them, as the log has it.
	UnreadAttempts int    `json:"unread_attempts"`
	FirstUnread    string `json:"first_unread,omitempty"`
	// LogFrom and LogUntil are the times of the first and the last attempt in the log whose time could be read, and
	// TimelessAttempts counts the others. They were asked all the same.
	LogFrom          time.Time `json:"log_from,omitzero"`
	LogUntil         time.Time `json:"log_until,omitzero"`
	TimelessAttempts int       `json:"timeless_attempts"`
	Complete         bool      `json:"complete"` // whether the whole log was read and replayed
	// LogTimesUsed is false: the attempts were asked as if they came now.
	LogTimesUsed bool `json:"log_times_used"`
	// ReportedSuccesses and ReportedFailures are nil unless outcomes were reported.
	ReportedSuccesses *int      `json:"reported_successes,omitempty"`
	ReportedFailures  *int      `json:"reported_failures,omitempty"`
	ElapsedSeconds    float64   `json:"elapsed_seconds"`
	ChecksPerSecond   float64   `json:"checks_per_second"`
	MostWouldBlock    []FullKey `json:"most_would_block"` // by zone, those with the most first
}

// FullKey is a bucket that had no room for WouldBlock attempts, whether its zone is
// enforced or not.
type FullKey struct {
	ZoneID     int64  `json:"zone_id"`
	Key        string `json:"bucket_key"`
	WouldBlock int    `json:"would_block"`
}

func (t *tally) summary(took time.Duration, complete bool) Summary {
	s := Summary{
		Attempts: t.allowed + t.blocked, Allowed: t.allowed, Blocked: t.blocked, WouldBlock: t.wouldBlock, Reasons: t.reasons,
		PartlyAsked: t.partly, SkippedLines: t.skipped, Complete: complete, ElapsedSeconds: took.Seconds(), MostWouldBlock: []FullKey{},
	}
	if took > 0 {
		s.ChecksPerSecond = float64(s.Attempts) / took.Seconds()
	}
	keys := make([]FullKey, 0, len(t.keys))
	for b, n := range t.keys {
		keys = append(keys, FullKey{ZoneID: b.ZoneID, Key: b.Key, WouldBlock: n})
	}
	slices.SortFunc(keys, func(a, b FullKey) int {
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(b.WouldBlock, a.WouldBlock), cmp.Compare(a.Key, b.Key))
	})
	inZone := map[int64]int{}
	for _, key := range keys {
		if inZone[key.ZoneID]++; inZone[key.ZoneID] <= keysNamed {
			s.MostWouldBlock = append(s.MostWouldBlock, key)
		}
	}
	return s
}
