package ask

import (
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// KeyFlags name the secret keys by which pseudonyms are made.
type KeyFlags struct {
	KeyHMACFile string `name:"key-hmac-file" env:"VELOCITY_KEY_HMAC_FILE" placeholder:"DIR" help:"Folder of the secret keys that make pseudonyms, for zones with key_form hmac: one file for each key, named by its id. A running service reads it again every 10 seconds."`
}

// Keyring returns the keys of the folder, or an empty Keyring if no folder is named.
func (f KeyFlags) Keyring() (*service.Keyring, error) {
	ring := new(service.Keyring)
	if f.KeyHMACFile == "" {
		return ring, nil
	}
	keys, err := server.ReadKeys(f.KeyHMACFile)
	if err == nil {
		err = ring.Replace(keys)
	}
	if err != nil {
		return nil, shell.Usagef("keys of pseudonyms (--key-hmac-file): %w", err)
	}
	return ring, nil
}
