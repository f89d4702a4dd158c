package handlers

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"velocityd/front"
	"velocityd/service/access"
)

// FuzzCredential holds that a request is somebody's only if it has the whole text of his
// token, plain or as the password of Basic.
func FuzzCredential(f *testing.F) {
	token := access.NewToken().Reveal()
	for _, seed := range []string{
		"Bearer " + token, "bearer  " + token, "Basic " + base64.StdEncoding.EncodeToString([]byte("a:"+token)),
		"Basic " + base64.StdEncoding.EncodeToString([]byte(token)), "Bearer", "", " ", "Basic", "Basic ====", token, "Digest username=x",
	} {
		f.Add(seed, "")
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, authorization, key string) {
		r := &http.Request{Header: http.Header{}}
		if authorization != "" {
			r.Header.Set(fieldAuthorization, authorization)
		}
		if key != "" {
			r.Header.Set(fieldAPIKey, key)
		}
		digest, given := front.CredentialOf(r.Header[fieldAuthorization], r.Header[fieldAPIKey], nil)
		if !given {
			return
		}
		text := key
		if key == "" {
			_, text, _ = strings.Cut(authorization, " ")
			text = strings.TrimLeft(text, " ")
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && strings.Contains(string(decoded), ":") {
				_, text, _ = strings.Cut(string(decoded), ":")
			}
		}
		if held, ok := access.ParseToken(text); !ok || held.Digest() != digest {
			t.Errorf("%q and %q are taken for a token", authorization, key)
		}
	})
}
