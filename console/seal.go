package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// keyLength is the length of the console's secret key, and of those that are made of it, in bytes.
const keyLength = 32

// sealer makes texts that only this console can read or make: AES-GCM with a random nonce.
type sealer struct{ aead cipher.AEAD }

// newSealer returns the sealer for one purpose. What is sealed for one purpose cannot be opened for another.
func newSealer(secret []byte, purpose string) sealer {
	key, err := hkdf.Key(sha256.New, secret, nil, "velocityd console "+purpose, keyLength)
	if err != nil {
		panic(err) // the lengths are fixed
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer{aead}
}

// seal returns value as text that can stand in an address or a cookie.
func (s sealer) seal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only values of this package are sealed
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, nil)) //nolint:gosec // the cipher makes the nonce
}

// open reads sealed text into value, and reports whether this console has sealed it.
func (s sealer) open(text string, value any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	clear, err := s.aead.Open(nil, nil, sealed, nil)
	return err == nil && json.Unmarshal(clear, value) == nil
}
