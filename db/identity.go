package db

import (
	"context"
	"fmt"
	"sync"

	"velocityd/db/session"
	"velocityd/internal/address"
	"velocityd/service"
)

// Identity is the database to which an address of a DSN leads.
type Identity struct {
	Address string
	Value   string // "" if the database has none
	Err     error  // an *UnreadyError if the address could not be asked
}

// Identities asks each address of o's DSN, all at once. Errors are those of Open.
func Identities(ctx context.Context, o session.Options) ([]Identity, error) {
	dsns := address.Split(o.DSN)
	list := make([]Identity, len(dsns))
	var asking sync.WaitGroup
	for i, dsn := range dsns {
		o.DSN = dsn
		probe, err := OpenProbe(o)
		if err != nil {
			return nil, err
		}
		list[i].Address = probe.address
		asking.Go(func() {
			defer func() { _ = probe.Close() }()
			list[i].Err = Unready(ctx, probe.onConn(ctx, func(ctx context.Context, conn *session.Conn) (err error) {
				if list[i].Value, err = conn.Identity(ctx); err != nil {
					err = obstacle{right: "SELECT", object: "table velocity_identity", error: err}
				}
				return err
			}))
		})
	}
	asking.Wait()
	return list, nil
}

// CompareKeys compares secret keys of pseudonyms with those that other instances use, by their fingerprints in the
// database. It notes the fingerprint of a key that is new there, if the account may. The error wraps
// service.ErrConflict if one of the keys has another secret there: instances with different secrets under one id would
// each admit the rate. Its other errors are those of look-ups.
func (s *Store) CompareKeys(ctx context.Context, keys []service.SecretKey) error {
	for _, key := range keys {
		name, own := "key "+key.String(), key.Fingerprint()
		var noted []string
		err := s.lookUps.SelectContext(ctx, &noted, "SELECT value FROM velocity_identity WHERE name = ?", name)
		if err == nil && len(noted) == 0 {
			err = s.lookUps.Exec(ctx, "INSERT INTO velocity_identity (name, value) VALUES (?, ?)", name, own)
			if session.IsNumber(err, session.NumberDuplicate) || session.IsOneOf(err, session.LackingRight()) {
				err = nil // another instance did it now, and the next look compares; or an account of a person
			}
		}
		switch {
		case err != nil:
			return fmt.Errorf("compare secret keys: %w", session.LookupError(err))
		case len(noted) > 0 && noted[0] != own:
			return fmt.Errorf("%w: the secret key %s is not the one that other instances use or used under this id: "+
				"give every instance the same file, and a new secret a new id", service.ErrConflict, key)
		}
	}
	return nil
}
