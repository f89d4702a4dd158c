// Package pam limits logins by PAM, with pam_exec: one process asks for each try of a login, and another one reports
// that it has succeeded. It owns the files by which the second process learns of the first. It must not know how a
// check is decided or sent.
package pam

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"velocityd/service"
)

// Service is the service, as package client asks it.
type Service interface {
	Check(ctx context.Context, check service.Check) (service.Decision, error)
	ReportAll(ctx context.Context, reports []service.Report) ([]error, error)
}

// Door asks and reports for the logins of one program, such as an sshd for a connection.
type Door struct {
	Service     Service
	UserZone    int64 // 0: users are not limited
	AddressZone int64 // 0: addresses are not limited
	Folder      *Folder
	Program     Process // that called pam_exec
}

// Login is a try of a login, or a later step of it, in the words of pam_exec(8).
type Login struct {
	User, Host, Service string
	Step                string // PAM_TYPE
}

// The steps of a login in which a Door does something.
const (
	StepAuth    = "auth"
	StepAccount = "account"
	StepSession = "open_session"
)

// LoginOf returns the login in the environment of pam_exec.
func LoginOf(lookup func(string) (string, bool)) Login {
	value := func(name string) string {
		text, _ := lookup(name)
		return text
	}
	return Login{User: value("PAM_USER"), Host: value("PAM_RHOST"), Service: value("PAM_SERVICE"), Step: value("PAM_TYPE")}
}

// Check asks whether a try may go ahead, and remembers it for Success. A login that has no bucket, because it comes
// from this machine and only addresses are limited, goes ahead. The errors are those of the service and of the Folder;
// a try whose answer is lost is remembered, too, because it may have been counted.
func (d Door) Check(ctx context.Context, l Login) (blocked bool, err error) {
	buckets, err := d.buckets(l)
	if err != nil || len(buckets) == 0 {
		return false, err
	}
	attempt := rand.Text()
	decision, err := d.Service.Check(ctx, service.Check{AttemptID: attempt, Buckets: buckets})
	if decision.Blocked {
		attempt = "" // has no outcome
	}
	d.Folder.sweep()
	return decision.Blocked, errors.Join(err, d.Folder.add(d.Program.stateOf(l), attempt))
}

// buckets returns the buckets of a login. A host that is a name has none, because the owner of its address chooses the
// name in DNS.
func (d Door) buckets(l Login) (list []service.Bucket, err error) {
	if d.UserZone != 0 {
		list = append(list, service.Bucket{ZoneID: d.UserZone, Key: l.User})
	}
	address, err := netip.ParseAddr(l.Host)
	switch {
	case d.AddressZone == 0 || l.Host == "":
	case err == nil:
		list = append(list, service.Bucket{ZoneID: d.AddressZone, Key: address.WithZone("").String()})
	case len(list) == 0:
		return nil, errors.New("the program names the host that the login comes from, and not its address (sshd: UseDNS no)")
	}
	return list, nil
}

// Success reports that the last try of the login has succeeded, and that the earlier ones have failed. It does so in
// two steps: at the end of the stack auth, which a wrong password does not reach, it marks the last try; in account or
// open_session, which are reached after a success alone, it reports a try that is marked. So a login by a key, which
// does not pass auth, reports nothing of a password that was tried before it in the same connection. Without a try to
// report Success does nothing. It forgets tries that it has reported, also after an error: a later report would be
// about another login.
func (d Door) Success(ctx context.Context, l Login) error {
	state := d.Program.stateOf(l)
	switch l.Step {
	case StepAuth:
		return d.Folder.mark(state)
	case StepAccount, StepSession:
	default:
		return nil
	}
	attempts, isMarked, err := d.Folder.take(state)
	if err != nil || !isMarked {
		return err
	}
	// One call: the service carries it out once it has arrived, also if the login is over.
	slices.Reverse(attempts)
	reports := make([]service.Report, len(attempts))
	for i, attempt := range attempts {
		reports[i] = service.Report{AttemptID: attempt, Outcome: service.OutcomeFailure}
	}
	reports[0].Outcome = service.OutcomeSuccess
	results, err := d.Service.ReportAll(ctx, reports)
	if err != nil {
		return fmt.Errorf("report how the tries have ended: %w", err)
	}
	for i := range results {
		results[i] = known(results[i])
	}
	return errors.Join(results...)
}

// known returns err, unless the service does not know the attempt: it has passed while the service was away.
func known(err error) error {
	if errors.Is(err, service.ErrNotFound) {
		return nil
	}
	return err
}
