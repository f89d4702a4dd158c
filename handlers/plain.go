package handlers

import (
	"math"
	"unicode/utf8"

	"velocityd/service"
)

// plainText reads checks in the form in which nearly all callers write them. It gives
// up on everything else: escapes, unknown or repeated members, signs, fractions, null,
// missing or wrong parts. Then the decoder reads the body, which is several times
// slower and knows all forms. What plainText accepts means the same to the decoder; a
// fuzz target compares the two.
type plainText struct {
	rest []byte
}

// plainQuestion reads the body of one check.
func plainQuestion(body []byte) (asked question, ok bool) {
	p := plainText{rest: body}
	return asked, p.question(&asked) && p.ended()
}

// plainQuestions reads the body of several checks.
func plainQuestions(body []byte) (asked []question, ok bool) {
	p := plainText{rest: body}
	ok = p.object(func(name []byte) bool {
		return string(name) == "checks" && asked == nil && p.list(service.MaxChecks, func() bool {
			asked = append(asked, question{})
			return p.question(&asked[len(asked)-1])
		})
	})
	return asked, ok && len(asked) > 0 && p.ended()
}

// question reads one check.
func (p *plainText) question(asked *question) bool {
	var lone plainBucket
	ok := p.object(func(name []byte) bool {
		switch string(name) {
		case "attempt_id":
			again := asked.check.AttemptID != ""
			return p.text(&asked.check.AttemptID) && asked.check.AttemptID != "" && !again
		case "buckets":
			again := asked.listed
			asked.listed = true
			return !again && p.buckets(&asked.check)
		default:
			return lone.member(p, name)
		}
	})
	if asked.listed {
		return ok && !lone.hasZone && !lone.hasKey
	}
	asked.check.Buckets = []service.Bucket{lone.Bucket}
	return ok && lone.hasZone && lone.hasKey
}

func (p *plainText) buckets(check *service.Check) bool {
	return p.list(service.MaxBuckets, func() bool {
		var b plainBucket
		ok := p.object(func(name []byte) bool { return b.member(p, name) })
		check.Buckets = append(check.Buckets, b.Bucket)
		return ok && b.hasZone && b.hasKey
	})
}

// plainBucket is a bucket of which some members have been read.
type plainBucket struct {
	service.Bucket
	hasZone, hasKey bool
}

// member reads the value of the member that is called name.
func (b *plainBucket) member(p *plainText, name []byte) bool {
	switch string(name) {
	case "zone_id":
		again := b.hasZone
		b.hasZone = true
		return !again && p.number(&b.ZoneID)
	case "bucket_key":
		again := b.hasKey
		b.hasKey = true
		return !again && p.text(&b.Key)
	}
	return false
}

// object reads an object of one member or more, whose values member reads.
func (p *plainText) object(member func(name []byte) bool) bool {
	if !p.next('{') {
		return false
	}
	for {
		name, ok := p.quoted()
		if !ok || !p.next(':') || !member(name) {
			return false
		}
		if !p.next(',') {
			return p.next('}')
		}
	}
}

// list reads an array of 1 to most elements, which element reads.
func (p *plainText) list(most int, element func() bool) bool {
	if !p.next('[') {
		return false
	}
	for range most {
		if !element() {
			return false
		}
		if !p.next(',') {
			return p.next(']')
		}
	}
	return false
}

// next skips white space, and then c. It reports whether c was there.
func (p *plainText) next(c byte) bool {
	p.space()
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *plainText) space() {
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\n' || p.rest[0] == '\r' || p.rest[0] == '\t') {
		p.rest = p.rest[1:]
	}
}

// ended reports whether nothing but white space is left.
func (p *plainText) ended() bool {
	p.space()
	return len(p.rest) == 0
}

// text reads a string.
func (p *plainText) text(into *string) bool {
	inside, ok := p.quoted()
	*into = string(inside)
	return ok
}

// quoted reads a string and returns what is inside the quotes, which must be
// valid UTF-8 without escapes and control characters.
func (p *plainText) quoted() (inside []byte, ok bool) {
	if !p.next('"') {
		return nil, false
	}
	for i, c := range p.rest {
		switch {
		case c == '"':
			inside, p.rest = p.rest[:i], p.rest[i+1:]
			return inside, utf8.Valid(inside)
		case c == '\\' || c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// number reads a whole number that is not negative. It need not look for a fraction
// or an exponent: neither can come next in the forms that plainText reads.
func (p *plainText) number(into *int64) bool {
	p.space()
	digits := 0
	for digits < len(p.rest) && p.rest[digits] >= '0' && p.rest[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 1 && p.rest[0] == '0' {
		return false
	}
	for _, c := range p.rest[:digits] {
		if *into > math.MaxInt64/10-1 {
			return false
		}
		*into = *into*10 + int64(c-'0')
	}
	p.rest = p.rest[digits:]
	return true
}
