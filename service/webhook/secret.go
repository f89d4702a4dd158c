package webhook

import (
	"crypto/rand"
	"encoding/base64"
)

// secretBytes is the length of a secret.
const secretBytes = 24

// NewSecret returns a secret in the form of Standard Webhooks, whose key signs the events for one webhook.
func NewSecret() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}
