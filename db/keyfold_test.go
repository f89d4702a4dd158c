package db_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// kindOfCollation says which kind of keys is for a table of users whose names have that collation.
func kindOfCollation(collation string) service.KeyKind {
	switch collation {
	case "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci":
		return service.KeyUsernameAI
	case "utf8mb4_general_ci", "utf8mb4_unicode_ci":
		return service.KeyUsernameGeneral
	}
	return ""
}

// collationsOf returns those collations with a kind that an engine has. Its default is one of them.
func collationsOf(t *testing.T, d *enginetest.Database) (names []string) {
	t.Helper()
	enginetest.Exec(t, d.SQL, "CREATE TABLE users (name VARCHAR(9)) CHARACTER SET utf8mb4")
	all, err := enginetest.Texts(d.SQL, "SELECT COLLATION_NAME FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'users'")
	if err != nil || len(all) != 1 || kindOfCollation(all[0][0]) == "" {
		t.Fatalf("no kind of keys is for the default collation %q: %v", all, err)
	}
	names = append(names, all[0][0])
	for _, name := range []string{
		"utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci",
	} {
		if _, err := d.SQL.Exec("SELECT _utf8mb4 'a' COLLATE " + name); err == nil && name != names[0] { //nolint:gosec // a name of the list above
			names = append(names, name)
		}
	}
	return names
}

// weightsOf returns the weight of each text in a collation: of two texts with one weight, = takes
// the one for the other.
func weightsOf(t *testing.T, d *enginetest.Database, collation string, texts []string) map[string]string {
	t.Helper()
	enginetest.Exec(t, d.SQL, "DROP TABLE IF EXISTS texts")
	enginetest.Exec(t, d.SQL, "CREATE TABLE texts (text VARCHAR(9) CHARACTER SET utf8mb4 COLLATE "+collation+")")
	for some := range slices.Chunk(texts, 8192) {
		var rows strings.Builder
		for _, text := range some {
			fmt.Fprintf(&rows, ",(_utf8mb4 0x%x)", text)
		}
		enginetest.Exec(t, d.SQL, "INSERT INTO texts VALUES "+rows.String()[1:])
	}
	weights := make(map[string]string, len(texts))
	rows, err := enginetest.Texts(d.SQL, "SELECT HEX(text), HEX(WEIGHT_STRING(text)) FROM texts")
	if err != nil || len(rows) != len(texts) {
		t.Fatalf("%d weights of %d: %v", len(rows), len(texts), err)
	}
	for _, row := range rows {
		text, _ := hex.DecodeString(row[0])
		weights[string(text)] = row[1]
	}
	return weights
}

// characters returns each of the basic plane and of the next, assigned or not, and some of the others.
func characters() (all []string) {
	for r := rune(0x20); r <= unicode.MaxRune; r++ {
		isSparse := r >= 0x20000 && (r < 0x2F800 || r > 0x2FA1F) && (r < 0xE0000 || r > 0xE01FF)
		if r >= 0xD800 && r < 0xE000 || unicode.IsControl(r) || isSparse && r&0xff != 0 {
			continue
		}
		all = append(all, string(r))
	}
	return all
}

// unitsOf cuts a weight into those of letters. Weights of letters without an entry, such as most of Han, have two
// parts.
func unitsOf(weight string) (units []string) {
	for weight != "" {
		length := 4
		if strings.HasPrefix(weight, "FB") && len(weight) >= 8 {
			length = 8
		}
		units, weight = append(units, weight[:length]), weight[length:]
	}
	return units
}

// equals returns pairs of texts that a collation takes for one: each character, and the
// characters that stand for the parts of its weight.
func equals(t *testing.T, weights map[string]string, normalize func(string) string) map[string]string {
	t.Helper()
	standFor := map[string]string{}
	less := func(a, b string) int {
		isNormal := func(text string) int {
			if normalize(text) == text {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(isNormal(a), isNormal(b)), cmp.Compare(a, b))
	}
	for text, weight := range weights {
		if known, ok := standFor[weight]; len(unitsOf(weight)) == 1 && (!ok || less(text, known) < 0) {
			standFor[weight] = text
		}
	}
	pairs := map[string]string{}
	for text, weight := range weights {
		pair := ""
		for _, unit := range unitsOf(weight) {
			if standFor[unit] == "" {
				t.Fatalf("no character has the weight %s, which is part of that of %+q", unit, text)
			}
			pair += standFor[unit]
		}
		pairs[text] = pair
	}
	return pairs
}

// orders returns all pairs of letters of the scripts in which a vowel is written before its
// consonant and compared after it: Thai, Lao, New Tai Lue, Tai Viet. A weight may be that of two orders.
func orders() (pairs []string) {
	for _, script := range []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.New_Tai_Lue, unicode.Tai_Viet} {
		var letters []rune
		for r := rune(0xE00); r < 0xAB00; r++ {
			if unicode.Is(script, r) {
				letters = append(letters, r)
			}
		}
		for _, first := range letters {
			for _, second := range letters {
				pairs = append(pairs, string([]rune{first, second}))
			}
		}
	}
	return pairs
}

func TestNamesEqualInCollationAreOneBucket(t *testing.T) {
	nightly.Only(t, "all characters of Unicode in each collation of an engine")
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		for _, collation := range collationsOf(t, d) {
			rule := service.KeyRule{Kind: kindOfCollation(collation)}
			normalize := func(text string) string {
				key, err := rule.Normalize(text)
				if err != nil {
					t.Fatal(err)
				}
				return key
			}
			missing := 0
			for text, pair := range equals(t, weightsOf(t, d, collation, characters()), normalize) {
				if a, b := normalize("a"+text+"z"), normalize("a"+pair+"z"); a != b {
					if missing++; missing <= 20 {
						t.Errorf("%s takes %+q for %+q, whose keys are %+q and %+q; a word for foldWords may be %+q",
							collation, text, pair, normalize(text), normalize(pair), text+normalize(pair))
					}
				}
			}
			if missing > 0 {
				t.Errorf("%s: %d characters have a bucket of their own", collation, missing)
			}
			keys := map[string]string{} // by weight
			for text, weight := range weightsOf(t, d, collation, orders()) {
				key := normalize("a" + text + "z")
				if other, ok := keys[weight]; ok && other != key {
					t.Errorf("%s takes %+q for another order of letters, with the key %+q", collation, text, other)
				}
				keys[weight] = key
			}
			for _, pair := range [][2]string{
				{"l\u00b7l", "ll"},
				{"bob ", "bob"},
				{"bob\u00ad ", "bob"},
				{"z\u0335e", "ze"},
				{"\ufdfa", "صلى الله عليه وسلم"},
			} {
				equal := d.Count(t, "SELECT _utf8mb4 ? COLLATE "+collation+" = _utf8mb4 ? COLLATE "+collation, pair[0],
					pair[1]) == 1
				if equal && normalize(pair[0]) != normalize(pair[1]) {
					t.Errorf("%s takes %+q for %+q", collation, pair[0], pair[1])
				}
			}
		}
	})
}
