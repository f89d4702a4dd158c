package db

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
)

// packet is the text of one or more SQL statements that go to the engine at once. Values are
// written into the text, because go-sql-driver fills in placeholders only for the first
// statement of a packet.
type packet struct {
	text []byte
}

// mostText is how many bytes a connection keeps for the next packet's text. Most packets of a batch
// fit in.
const mostText = 128 << 10

// reading returns an empty packet for a batch. Its text lies in the connection's memory, so the
// packet must be sent, or given up, before the next one is begun.
func (s *connection) reading() reading { return reading{packet: packet{text: s.text[:0]}} }

// query returns the text of a packet that is sent now. The packet must not be used any more.
func (s *connection) query(p *packet) string {
	if cap(p.text) <= mostText {
		s.text = p.text
	}
	return string(p.text)
}

// longestList is how many keys an IN list may hold. From 1,000 on MariaDB turns the list into
// a join with a temporary table (in_predicate_conversion_threshold).
const longestList = 500

// instantFormat is how DATETIME(6) is written and read.
const instantFormat = "2006-01-02 15:04:05.000000"

func (p *packet) sql(text string) *packet {
	p.text = append(p.text, text...)
	return p
}

func (p *packet) int(n int64) *packet {
	p.text = strconv.AppendInt(p.text, n, 10)
	return p
}

func (p *packet) uint(n uint64) { p.text = strconv.AppendUint(p.text, n, 10) }

// idOrNull writes an id, or NULL for 0.
func (p *packet) idOrNull(id uint64) *packet {
	if id == 0 {
		return p.sql("NULL")
	}
	p.uint(id)
	return p
}

func (p *packet) bool(is bool) *packet {
	if is {
		return p.sql("1")
	}
	return p.sql("0")
}

// seconds writes d as the number of an INTERVAL … SECOND.
func (p *packet) seconds(d time.Duration) *packet { return p.int(service.WholeSeconds(d)) }

func (p *packet) instant(t time.Time) *packet {
	p.text = append(p.text, '\'')
	p.text = t.UTC().AppendFormat(p.text, instantFormat)
	p.text = append(p.text, '\'')
	return p
}

// string writes a literal that means s under every sql_mode: between quotes if it has only
// characters without another meaning, otherwise in hexadecimal.
func (p *packet) string(s string) *packet {
	if strings.IndexFunc(s, isSpecial) < 0 {
		p.text = append(p.text, '\'')
		p.text = append(p.text, s...)
		p.text = append(p.text, '\'')
		return p
	}
	p.text = append(p.text, "_utf8mb4 0x"...)
	for i := range len(s) {
		const digits = "0123456789ABCDEF"
		p.text = append(p.text, digits[s[i]>>4], digits[s[i]&15])
	}
	return p
}

// whereBucket writes the condition that is true for the rows of one bucket.
func (p *packet) whereBucket(b service.Bucket) *packet {
	return p.sql(" WHERE zone_id = ").int(b.ZoneID).sql(" AND bucket_key = ").string(b.Key)
}

// orNull writes s as string does, and NULL if it is empty.
func (p *packet) orNull(s string) *packet {
	if s == "" {
		return p.sql("NULL")
	}
	return p.string(s)
}

func isSpecial(r rune) bool {
	switch {
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
		return false
	}
	return r > '~' || !strings.ContainsRune("@._:/+- ", r)
}

// keys writes a condition that is true for the rows of the given buckets, which must be in
// lock order: by zone and key. For each zone, more may write a further condition.
func (p *packet) keys(buckets []service.Bucket, more func(zoneID int64)) *packet {
	listed := 0
	for i, b := range buckets {
		isNew := i == 0 || b.ZoneID != buckets[i-1].ZoneID || listed == longestList
		switch {
		case isNew && i > 0:
			p.endList(buckets[i-1].ZoneID, more).sql(" OR ")
			fallthrough
		case isNew:
			p.sql("(zone_id = ").int(b.ZoneID).sql(" AND bucket_key IN (")
			listed = 0
		default:
			p.sql(",")
		}
		p.string(b.Key)
		listed++
	}
	return p.endList(buckets[len(buckets)-1].ZoneID, more)
}

func (p *packet) endList(zoneID int64, more func(zoneID int64)) *packet {
	p.sql(")")
	if more != nil {
		more(zoneID)
	}
	return p.sql(")")
}

// list writes n values in parentheses.
func (p *packet) list(n int, value func(i int)) *packet {
	p.sql("(")
	for i := range n {
		if i > 0 {
			p.sql(",")
		}
		value(i)
	}
	return p.sql(")")
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
		return time.Time{}, errMisfit
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
		return time.Time{}, errMisfit
	}
	return t, nil
}

// errTooLong says that a packet is longer than the engine accepts. Nothing was sent.
var errTooLong = errors.New("packet is longer than the engine's max_allowed_packet")
