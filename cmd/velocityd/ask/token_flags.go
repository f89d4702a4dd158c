package ask

import (
	"strings"

	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/files"
	"velocityd/service/access"
)

// TokenFlags tell by which token a service is asked. There is no flag for the token
// itself: other users of the machine see flags.
type TokenFlags struct {
	TokenFile string `name:"token-file" env:"VELOCITY_TOKEN_FILE" placeholder:"FILE" help:"With --url: file that holds the token to ask with. If none is given, the token is in the environment variable VELOCITY_TOKEN, or the service asks for none."`
	inherited string // VELOCITY_TOKEN
}

// token returns the token to ask with, or "" if there is none. Its errors are shell.UsageErrors
// and repeat nothing of the text.
func (f TokenFlags) token() (string, error) {
	text, source := f.inherited, "VELOCITY_TOKEN"
	if f.TokenFile != "" {
		read, err := files.ReadSecret(f.TokenFile, files.ShortLimit)
		if err != nil {
			return "", shell.Usagef("--token-file (VELOCITY_TOKEN_FILE): %w", err)
		}
		text, source = strings.TrimSpace(string(read)), "--token-file (VELOCITY_TOKEN_FILE): "+f.TokenFile
	} else if text == "" {
		return "", nil
	}
	token, ok := access.ParseToken(text)
	if !ok {
		return "",
			shell.Usagef(
				"%s does not hold a token: it must be vel_ and 36 letters and digits, as 'velocityd token create' has printed it",
				source)
	}
	return token.Reveal(), nil
}
