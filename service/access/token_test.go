package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestNewTokensAreReadAndDiffer(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^vel_[0-9A-Za-z]{36}$`)
	seen := map[string]bool{}
	for range 10_000 {
		token := NewToken()
		text := token.Reveal()
		if again, ok := ParseToken(text); !ok || again != token || !form.MatchString(text) || seen[text] {
			t.Fatalf("token %d is not read as itself, is malformed, or is not new", len(seen))
		}
		if token.Shown() != text[:8] {
			t.Fatalf("its first characters are %q", token.Shown())
		}
		seen[text] = true
	}
}

func TestTokenEndsInItsChecksum(t *testing.T) {
	t.Parallel()
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for secret, want := range map[string]string{
		strings.Repeat("0", 30):          "",
		"abcdefghijklmnopqrstuvwxyzABCD": "",
	} {
		for rest := crc32.ChecksumIEEE([]byte(secret)); len(want) < 6; rest /= 62 {
			want = letters[rest%62:rest%62+1] + want
		}
		if _, ok := ParseToken("vel_" + secret + want); !ok {
			t.Errorf("the checksum of %s is not %s", secret, want)
		}
	}
}

func TestParseTokenRefusesAllThatIsNotOne(t *testing.T) {
	t.Parallel()
	good := NewToken().Reveal()
	bad := map[string]string{
		"empty": "", "start alone": "vel_", "short": good[:39], "long": good + "0", "another start": "VEL_" + good[4:],
		"spaces around": " " + good[1:], "line end": good[:39] + "\n", "not ASCII": good[:38] + "é",
		"zero byte": good[:39] + "\x00",
		"dash":      good[:20] + "-" + good[21:],
	}
	for i := 4; i < len(good); i++ { // CRC-32 sees every change of one character
		other := byte('x')
		if good[i] == other {
			other = 'y'
		}
		bad[fmt.Sprint("character ", i)] = good[:i] + string(other) + good[i+1:]
	}
	for name, text := range bad {
		if _, ok := ParseToken(text); ok {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTokensAreNeverPrinted(t *testing.T) {
	t.Parallel()
	token := NewToken()
	secret := token.Reveal()[4:]
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+"\n", token, struct{ Held Token }{token})
	}
	text, err := json.Marshal(map[string]any{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	slog.New(slog.NewTextHandler(&out, nil)).Info("made", "token", token, "pointer", &token)
	if strings.Contains(out.String(), secret[:6]) || strings.Contains(out.String(), fmt.Sprintf("%x", secret[:6])) ||
		!strings.Contains(out.String(), "vel_***") {
		t.Error("a token was printed")
	}
}

func TestDigestsTellTokensAndSubjectsApart(t *testing.T) {
	t.Parallel()
	token := NewToken()
	if SubjectDigest(token.Reveal()) == token.Digest() || SubjectDigest("CN=a") == SubjectDigest("CN=A") {
		t.Error("two credentials have one digest")
	}
}

func TestParsingATokenAllocatesNextToNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts those of other tests, too
	text := NewToken().Reveal()
	var sum Digest
	if n := testing.AllocsPerRun(100, func() {
		token, _ := ParseToken(text)
		sum = token.Digest()
	}); n > 1 || sum == (Digest{}) {
		t.Errorf("%.0f allocations", n)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(NewToken().Reveal())
	f.Add("vel_")
	f.Add("vel_000000000000000000000000000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := ParseToken(text)
		if ok && token.Reveal() != text {
			t.Errorf("%q is read as another token", text)
		}
		if !ok && token != (Token{}) {
			if _, again := ParseToken(token.Reveal()); !again {
				t.Errorf("%q leaves half a token", text)
			}
		}
	})
}
