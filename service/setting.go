package service

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one setting of a zone. Its Name is the same in JSON, as a column and, with dashes, as a flag.
type Setting struct {
	Name string
	// At returns the place of the setting in a zone: an *int, *float64, *bool, *string or *Length.
	At func(z *Zone) any
	// Default is a value of that type, which the zero value of the setting stands for; nil if that stands for itself.
	Default any
	// Otherwise says the value of a setting where it is left out and another setting decides that.
	Otherwise string
	Zero      string // what 0 means, if not itself
	Unit      string // of a number, in its errors
	// Least and Most are the bounds of numbers and, in seconds, of lengths. Most is also the bound of a text in
	// characters.
	Least, Most int
	Choices     []Choice // the only words that a *string may have
	Required    bool     // a new zone has to name it
	Decides     bool     // every check is decided by it
	WholeRule   bool     // checks are decided by it in zones that need the whole rule
	Label       string   // a few words for a form
	See         string   // a link to the place in docs that says more, as docs/dba.md writes it
	Says        string   // one sentence, without the full stop: see Sentence
}

// Choice is a word that a setting may have, and its meaning, which may be empty.
type Choice struct{ Value, Meaning string }

// Length is a length of time that JSON has in whole seconds.
type Length time.Duration

// MarshalJSON implements json.Marshaler. A fraction of a second is left out.
func (l Length) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, WholeSeconds(time.Duration(l)), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler. A number that a time.Duration cannot hold stays out of the bounds of all
// settings.
func (l *Length) UnmarshalJSON(text []byte) error {
	const most = int64(math.MaxInt64 / time.Second)
	var n int64
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*l = Length(Seconds(min(max(n, -most), most)))
	return nil
}

// Kind is how a setting is written.
type Kind string

// The kinds of settings.
const (
	KindNumber Kind = "number"
	KindLength Kind = "seconds"
	KindFactor Kind = "factor" // a number with at most two decimals
	KindText   Kind = "text"
	KindChoice Kind = "choice"
	KindFlag   Kind = "flag"
)

// Kind returns how the setting is written.
func (s Setting) Kind() Kind {
	switch s.At(new(Zone)).(type) {
	case *int:
		return KindNumber
	case *Length:
		return KindLength
	case *float64:
		return KindFactor
	case *bool:
		return KindFlag
	}
	if s.Choices != nil {
		return KindChoice
	}
	return KindText
}

// SettingNamed returns the setting of a name, and whether there is one.
func SettingNamed(name string) (Setting, bool) {
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return Settings[i], true
}

// Words returns the words that the setting may have.
func (s Setting) Words() []string {
	words := make([]string, len(s.Choices))
	for i, c := range s.Choices {
		words[i] = c.Value
	}
	return words
}

// Sentence explains the setting, its words, and 0.
func (s Setting) Sentence() string {
	var meanings []string
	for _, c := range s.Choices {
		if c.Meaning != "" {
			meanings = append(meanings, c.Value+": "+c.Meaning)
		}
	}
	if s.Zero != "" {
		meanings = append(meanings, "0: "+s.Zero)
	}
	if len(meanings) == 0 {
		return s.Says + "."
	}
	return s.Says + ". " + strings.Join(meanings, "; ") + "."
}

// Text returns the value that a zone has, in JSON.
func (s Setting) Text(z *Zone) string {
	text, _ := json.Marshal(s.At(z)) // a factor that is no number has no text
	return string(text)
}

// fill puts the default in the place of the zero value.
func (s *Setting) fill(z *Zone) {
	if at := reflect.ValueOf(s.At(z)).Elem(); at.IsZero() {
		at.Set(reflect.ValueOf(s.Default))
	}
}

// validate returns an ErrInvalid that names the setting and its bounds, or nil.
func (s *Setting) validate(z *Zone) error {
	switch at := s.At(z).(type) {
	case *int:
		if *at < s.Least || *at > s.Most {
			return NewFieldError(s.Name, "must be %s, is %d", s.Bounds(), *at)
		}
	case *Length:
		if d := time.Duration(*at); d < Seconds(int64(s.Least)) || d > Seconds(int64(s.Most)) || d%time.Second != 0 {
			return NewFieldError(s.Name, "must be %d to %d whole seconds, is %s", s.Least, s.Most, secondsText(d))
		}
	case *float64:
		if math.IsNaN(*at) || *at < float64(s.Least) || *at > float64(s.Most) ||
			math.Abs(*at*100-math.Round(*at*100)) > 1e-6 {
			return NewFieldError(s.Name, "must be %s with at most two decimals, is %v", s.Bounds(), *at)
		}
	case *string:
		if s.Choices == nil {
			return validateText(s.Name, *at, s.Most)
		}
		if words := s.Words(); !slices.Contains(words, *at) {
			return NewFieldError(s.Name, "must be %s, is %q", Either(words), *at)
		}
	}
	return nil
}

// validateSetting returns an ErrInvalid unless the zone has a value for a setting that is within its bounds.
func (z Zone) validateSetting(name string) error {
	s, _ := SettingNamed(name)
	return s.validate(&z)
}

// Bounds returns the least and the most that a number may be, such as "0 to 36500 days".
func (s Setting) Bounds() string {
	return strings.TrimSpace(strconv.Itoa(s.Least) + " to " + strconv.Itoa(s.Most) + " " + s.Unit)
}

// Either lists words as alternatives: "a, b or c".
func Either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// byDefault has the default of each setting that another one does not decide.
var byDefault = Zone{}.WithDefaults() //nolint:gochecknoglobals // made once of a table that nothing changes

// WithDefaults returns the zone with every setting spelt out.
func (z Zone) WithDefaults() Zone {
	for i := range Settings {
		if Settings[i].Default != nil {
			Settings[i].fill(&z)
		}
	}
	z.Window = cmp.Or(z.Window, z.Calendar.Period.Length())
	z.ReserveTTL = cmp.Or(z.ReserveTTL, z.Window)
	return z
}

// WithLeftOut returns a zone that was written down, with the window and the reserve_ttl that it has if they were left
// out. isGiven tells that from a 0, which is invalid. missing names a setting that must not be left out, or is empty.
func (z Zone) WithLeftOut(isGiven func(setting string) bool) (_ Zone, missing string) {
	switch {
	case !isGiven("rate"):
		return z, "rate"
	case isGiven("window"):
	case z.Calendar.IsNone():
		return z, "window"
	default:
		z.Window = z.Calendar.Period.Length()
	}
	if !isGiven("reserve_ttl") {
		z.ReserveTTL = z.Window
	}
	return z, ""
}

// Validate returns an ErrInvalid that names the field and its bounds, or nil. Settings may have
// their zero value, which stands for the default.
func (z Zone) Validate() error { return z.WithDefaults().ValidateAsGiven() }

// ValidateAsGiven is Validate for a zone whose settings are all spelt out.
func (z Zone) ValidateAsGiven() error {
	if err := ValidateZoneID(z.ID); err != nil {
		return err
	}
	// The words come first: by them other settings have a meaning.
	for _, areWords := range []bool{true, false} {
		for i := range Settings {
			if s := &Settings[i]; (s.Choices != nil) == areWords {
				if err := s.validate(&z); err != nil {
					return err
				}
			}
		}
	}
	if length := z.Calendar.Period.Length(); length != 0 && z.Window != length {
		return NewFieldError("window", "must be left out or %d where the period is %s, is %s", WholeSeconds(length),
			z.Calendar.Period,
			secondsText(z.Window))
	}
	if z.ReserveTTL > z.Window {
		return NewFieldError("reserve_ttl", "must be 1 to %d whole seconds, the window, is %s", WholeSeconds(z.Window),
			secondsText(z.ReserveTTL))
	}
	return nil
}

// ValidateZoneID returns an ErrInvalid that names the field, or nil.
func ValidateZoneID(id int64) error {
	if id < 1 || id > MaxZoneID {
		return NewFieldError("zone_id", "must be 1 to %d, is %d", MaxZoneID, id)
	}
	return nil
}

// HasSettingsOf says that both zones have the same settings, whatever their ids and revisions are.
func (z Zone) HasSettingsOf(other Zone) bool {
	other.ID, other.Revision = z.ID, z.Revision
	return z.WithDefaults() == other.WithDefaults()
}

// SettingsJSON returns all settings in JSON, as PUT /v1/zones/{id} takes them.
func (z Zone) SettingsJSON() json.RawMessage { return append(z.appendSettings([]byte{'{'}), '}') }

// MarshalJSON implements json.Marshaler: the id, all settings spelt out, and the revision.
func (z Zone) MarshalJSON() ([]byte, error) {
	text := append(strconv.AppendInt([]byte(`{"id":`), z.ID, 10), ',')
	text = append(z.appendSettings(text), `,"revision":`...)
	return append(strconv.AppendUint(text, z.Revision, 10), '}'), nil
}

func (z Zone) appendSettings(text []byte) []byte {
	z = z.WithDefaults()
	for i := range Settings {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendQuote(text, Settings[i].Name)
		text = append(append(text, ':'), Settings[i].Text(&z)...)
	}
	return text
}

// UnmarshalJSON implements json.Unmarshaler, for an answer and for a row of zone_audit, in which engines write flags as
// numbers and NULL for a default. A setting that is left out has its default, too. Members that are no settings are
// ignored, because a later program may have written them.
func (z *Zone) UnmarshalJSON(text []byte) error {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	*z = Zone{}.WithDefaults()
	places := map[string]any{"id": &z.ID, "revision": &z.Revision}
	for _, s := range Settings {
		places[s.Name] = s.At(z)
	}
	for name, value := range members {
		at, isKnown := places[name]
		if !isKnown {
			continue
		}
		if flag, isFlag := at.(*bool); isFlag && len(value) == 1 {
			*flag = value[0] == '1'
			continue
		}
		if err := json.Unmarshal(value, at); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// ZoneOfState reads a zone from its row in JSON, as zone_audit has it, with its revision. The error does NOT quote it.
func ZoneOfState(id int64, state []byte) (Zone, error) {
	var zone Zone
	if err := json.Unmarshal(state, &zone); err != nil {
		return zone, fmt.Errorf("read a state of zone %d: %w", id, err)
	}
	zone.ID = id
	return zone.WithDefaults(), nil
}
