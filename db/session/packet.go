package session

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"velocityd/service"
)

// Packet is the text of one or more SQL statements that go to the engine at once. Values are
// written into the text: with placeholders the driver would box each of a thousand values, and scan
// the text again.
type Packet struct {
	Text []byte
}

// mostText is how many bytes a connection keeps for the next packet's text. Most packets of a batch
// fit in.
const mostText = 128 << 10

// Reading returns an empty packet for a batch. Its text lies in the connection's memory, so the
// packet must be sent, or given up, before the next one is begun.
func (s *Conn) Reading() Reading { return Reading{Packet: Packet{Text: s.text[:0]}} }

// Query returns the text of a packet that is sent now. The packet must not be used any more.
func (s *Conn) Query(p *Packet) string {
	if cap(p.Text) <= mostText {
		s.text = p.Text
	}
	return string(p.Text)
}

// longestList is how many keys an IN list may hold. From 1,000 on MariaDB turns the list into
// a join with a temporary table (in_predicate_conversion_threshold).
const longestList = 500

// InstantFormat is how DATETIME(6) is written and read.
const InstantFormat = "2006-01-02 15:04:05.000000"

// SQL writes text as it is.
func (p *Packet) SQL(text string) *Packet {
	p.Text = append(p.Text, text...)
	return p
}

// Int writes a number.
func (p *Packet) Int(n int64) *Packet {
	p.Text = strconv.AppendInt(p.Text, n, 10)
	return p
}

// Uint writes a number.
func (p *Packet) Uint(n uint64) { p.Text = strconv.AppendUint(p.Text, n, 10) }

// IDOrNull writes an id, or NULL for 0.
func (p *Packet) IDOrNull(id uint64) *Packet {
	if id == 0 {
		return p.SQL("NULL")
	}
	p.Uint(id)
	return p
}

// Bool writes 1 or 0.
func (p *Packet) Bool(is bool) *Packet {
	if is {
		return p.SQL("1")
	}
	return p.SQL("0")
}

// Seconds writes d as the number of an INTERVAL … SECOND.
func (p *Packet) Seconds(d time.Duration) *Packet { return p.Int(service.WholeSeconds(d)) }

// Instant writes t as a DATETIME(6), in UTC.
func (p *Packet) Instant(t time.Time) *Packet {
	p.Text = append(p.Text, '\'')
	p.Text = t.UTC().AppendFormat(p.Text, InstantFormat)
	p.Text = append(p.Text, '\'')
	return p
}

// Quote writes a literal that means s under every sql_mode: between quotes if it has only
// characters without another meaning, otherwise in hexadecimal.
func (p *Packet) Quote(s string) *Packet {
	if strings.IndexFunc(s, isSpecial) < 0 {
		p.Text = append(p.Text, '\'')
		p.Text = append(p.Text, s...)
		p.Text = append(p.Text, '\'')
		return p
	}
	p.Text = append(p.Text, "_utf8mb4 0x"...)
	for i := range len(s) {
		const digits = "0123456789ABCDEF"
		p.Text = append(p.Text, digits[s[i]>>4], digits[s[i]&15])
	}
	return p
}

// WhereBucket writes the condition that is true for the rows of one bucket.
func (p *Packet) WhereBucket(b service.Bucket) *Packet {
	return p.SQL(" WHERE zone_id = ").Int(b.ZoneID).SQL(" AND bucket_key = ").Quote(b.Key)
}

// OrNull writes s as string does, and NULL if it is empty.
func (p *Packet) OrNull(s string) *Packet {
	if s == "" {
		return p.SQL("NULL")
	}
	return p.Quote(s)
}

func isSpecial(r rune) bool {
	switch {
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
		return false
	}
	return r > '~' || !strings.ContainsRune("@._:/+- ", r)
}

// Keys writes a condition that is true for the rows of the given buckets, which must be in
// lock order: by zone and key. For each zone, more may write a further condition.
func (p *Packet) Keys(buckets []service.Bucket, more func(zoneID int64)) *Packet {
	listed := 0
	for i, b := range buckets {
		isNew := i == 0 || b.ZoneID != buckets[i-1].ZoneID || listed == longestList
		switch {
		case isNew && i > 0:
			p.endList(buckets[i-1].ZoneID, more).SQL(" OR ")
			fallthrough
		case isNew:
			p.SQL("(zone_id = ").Int(b.ZoneID).SQL(" AND bucket_key IN (")
			listed = 0
		default:
			p.SQL(",")
		}
		p.Quote(b.Key)
		listed++
	}
	return p.endList(buckets[len(buckets)-1].ZoneID, more)
}

func (p *Packet) endList(zoneID int64, more func(zoneID int64)) *Packet {
	p.SQL(")")
	if more != nil {
		more(zoneID)
	}
	return p.SQL(")")
}

// List writes n values in parentheses.
func (p *Packet) List(n int, value func(i int)) *Packet {
	p.SQL("(")
	for i := range n {
		if i > 0 {
			p.SQL(",")
		}
		value(i)
	}
	return p.SQL(")")
}

// parseInstant reads the text of a DATETIME(6), in UTC. A date that does not exist, such as
// the zero date, is an error.
func parseInstant(text []byte) (time.Time, error) {
	const form = "0000-00-00 00:00:00.000000"
	isWrong := len(text) != len(form)
	for i := 0; i < len(form) && !isWrong; i++ {
		isDigit := text[i] >= '0' && text[i] <= '9'
		isWrong = isDigit != (form[i] == '0') || !isDigit && text[i] != form[i]
	}
	if isWrong {
		return time.Time{}, ErrMisfit
	}
	number := func(from, to int) (n int) {
		for _, digit := range text[from:to] {
			n = n*10 + int(digit-'0')
		}
		return n
	}
	year, month, day := number(0, 4), time.Month(number(5, 7)), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	t := time.Date(year, month, day, hour, minute, second, number(20, 26)*1000, time.UTC)
	if month < 1 || month > 12 || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, ErrMisfit
	}
	return t, nil
}

// ErrTooLong says that a packet is longer than the engine accepts. Nothing was sent.
var ErrTooLong = errors.New("packet is longer than the engine's max_allowed_packet")

// NameBehind returns the name that stands behind some words of a statement, or "" if the words are not there.
func NameBehind(statement, words string) string {
	_, rest, isThere := strings.Cut(statement, words)
	if !isThere || words == "" {
		return ""
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) })
	if end < 0 {
		return rest
	}
	return rest[:end]
}
