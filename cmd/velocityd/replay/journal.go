package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// journalEntry is a line of journalctl -o json: https://systemd.io/JOURNAL_EXPORT_FORMATS says which fields and values
// there are.
type journalEntry struct {
	Time    journalText `json:"__REALTIME_TIMESTAMP"` // microseconds of Unix time
	Host    journalText `json:"_HOSTNAME"`
	Program journalText `json:"SYSLOG_IDENTIFIER"`
	PID     journalText `json:"_PID"`
	Message journalText `json:"MESSAGE"`
}

// journalText is the value of a field: text, or a list of bytes if it is not printable, or null if it is too long.
type journalText string

// UnmarshalJSON implements json.Unmarshaler. The error is that of a field that an entry has several times.
func (t *journalText) UnmarshalJSON(value []byte) error {
	var numbers []uint16 // a list of uint8 would be base64
	if json.Unmarshal(value, &numbers) != nil {
		return json.Unmarshal(value, (*string)(t))
	}
	raw := make([]byte, len(numbers))
	for i, n := range numbers {
		if raw[i] = byte(n); n > 255 {
			return fmt.Errorf("%d is no byte", n)
		}
	}
	*t = journalText(raw)
	return nil
}

// journalHead returns the parts of a line of journalctl -o json, or false if it is none. A message without a program is
// not the logger's: the journal repeats none.
func journalHead(line string) (head, bool) {
	var e journalEntry
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time == "" {
		return head{message: line}, false
	}
	at := string(e.Time)
	if seconds := len(at) - 6; seconds > 0 {
		at = at[:seconds] + "." + at[seconds:]
	}
	return head{at, string(e.Host), string(cmp.Or(e.Program, "-")), string(e.PID), string(e.Message)}, true
}
