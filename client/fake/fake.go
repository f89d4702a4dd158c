// Package fake is a velocityd in memory, for tests of programs that ask one by package client. It decides by the real
// rules, and its methods are those of client.Client of the same name. It does NOT speak HTTP and keeps nothing: it must
// not serve.
package fake

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

// patience is the deadline of a check. Nothing in memory makes one wait.
const patience = time.Minute

// Service answers like a running velocityd. It may be used by many goroutines at once.
type Service struct {
	store *memory.Store
	gate  *service.Limiter

	mu  sync.Mutex
	now time.Time
	err error // of every call; nil: calls are answered
}

var (
	_ service.Checker      = (*Service)(nil)
	_ service.OutcomeStore = (*Service)(nil)
	_ service.ZoneLister   = (*Service)(nil)
)

// New returns a service with zones. It ends the test if a zone is not valid. Its clock begins at the present time, and
// stands still until Advance.
func New(tb memory.TB, zones ...service.Zone) *Service {
	tb.Helper()
	s := &Service{now: time.Now()}
	s.store = memory.NewAt(s.clock)
	for _, zone := range zones {
		s.store.SetZone(tb, zone)
	}
	s.gate = service.NewLimiter(s.store, service.LimiterOptions{Zones: s.store, Timeout: patience})
	return s
}

func (s *Service) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Advance moves the clock forwards, so that attempts leave their window without a wait.
func (s *Service) Advance(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(by)
}

// Fail makes every call return err, such as service.ErrBusy or service.ErrUndecided, and count nothing. nil ends that.
func (s *Service) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *Service) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Check decides one attempt and records it.
func (s *Service) Check(ctx context.Context, check service.Check) (service.Decision, error) {
	if check.AttemptID == "" {
		check.AttemptID = rand.Text()
	}
	decisions, err := s.CheckAll(ctx, []service.Check{check})
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

// CheckAll implements service.Checker.
func (s *Service) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	if err := s.failure(); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return s.gate.CheckAll(ctx, checks)
}

// Report records how one login ended.
func (s *Service) Report(ctx context.Context, report service.Report) error {
	if err := report.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	errs, err := s.ReportAll(ctx, []service.Report{report})
	if err != nil {
		return err
	}
	return errs[0]
}

// ReportAll implements service.OutcomeStore.
func (s *Service) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if err := s.failure(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return s.store.ReportAll(ctx, reports)
}

// Zones implements service.ZoneLister.
func (s *Service) Zones(ctx context.Context) ([]service.Zone, error) {
	if err := s.failure(); err != nil {
		return nil, fmt.Errorf("list zones: %w", err)
	}
	return s.store.Zones(ctx)
}

// Override makes an exception for a key, in place of the one that it had. It ends the test if the exception is not
// valid.
func (s *Service) Override(tb memory.TB, o service.Override) {
	tb.Helper()
	if err := s.store.ReplaceOverride(o); err != nil {
		tb.Fatalf("set an override of zone %d: %v", o.ZoneID, err)
	}
}

// Txns returns the txns of a bucket, the oldest first. The zone keeps keys in its form: user names in lower case, and
// addresses as their networks.
func (s *Service) Txns(bucket service.Bucket) []service.Txn { return s.store.Txns(bucket) }
