package db

import (
	"context"
	"fmt"

	"velocityd/service"
)

// ProveKeys holds secret keys of pseudonyms against those that other instances use, by their
// fingerprints in the database. It notes the fingerprint of a key that is new there, if the account
// may. The error wraps service.ErrConflict if one of the keys has another secret there: instances
// with different secrets under one id would each admit the rate. Its other errors are those of look-ups.
func (s *Store) ProveKeys(ctx context.Context, keys []service.SecretKey) error {
	for _, key := range keys {
		name, own := "key "+key.String(), key.Fingerprint()
		var noted []string
		err := s.pool.SelectContext(ctx, &noted, "SELECT value FROM velocity_identity WHERE name = ?", name)
		if err == nil && len(noted) == 0 {
			err = s.pool.exec(ctx, "INSERT INTO velocity_identity (name, value) VALUES (?, ?)", name, own)
			if isNumber(err, errDuplicate) || isOneOf(err, lackingRight()) {
				err = nil // another instance did it now, and the next look compares; or an account of a person
			}
		}
		switch {
		case err != nil:
			return fmt.Errorf("compare secret keys: %w", lookupError(err))
		case len(noted) > 0 && noted[0] != own:
			return fmt.Errorf("%w: the secret key %s is not the one that other instances use or used under this id: "+
				"give every instance the same file, and a new secret a new id", service.ErrConflict, key)
		}
	}
	return nil
}
