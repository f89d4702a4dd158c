package replay

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
)

const (
	// maxLine is the longest line of a log that is parsed, in bytes.
	maxLine = 64 << 10
	// maxRepeats bounds how many attempts one "message repeated" line can mean.
	maxRepeats = 100_000
)

// attempt is the content of one line of an sshd log: a login by user from addr that
// ended with outcome, and how many times it was made. user is as the log has it: it may
// be empty, and attackers choose it. addr is never an IPv4-mapped IPv6 address.
type attempt struct {
	user    string
	addr    netip.Addr
	outcome service.Outcome
	times   int
}

// parseLine reads one syslog line of sshd or sshd-session, with or without its
// line end. It returns false for a line that is not a login attempt.
func parseLine(line string) (attempt, bool) {
	message, ok := sshdMessage(strings.TrimRight(line, "\r\n"))
	if !ok {
		return attempt{}, false
	}
	message, times, ok := unrepeat(message)
	if !ok {
		return attempt{}, false
	}
	a, ok := parseMessage(message)
	a.times = times
	return a, ok
}

// sshdMessage cuts off "TIME HOST sshd[PID]: ". It looks for the program's name only
// there: elsewhere in the line an attacker may have written it.
func sshdMessage(line string) (string, bool) {
	rest, ok := cutTime(line)
	if !ok {
		return "", false
	}
	host, rest, _ := strings.Cut(rest, " ")
	tag, message, ok := strings.Cut(rest, ": ")
	if !ok || host == "" {
		return "", false
	}
	program, pid, hasPID := strings.Cut(tag, "[")
	if hasPID {
		digits, closed := strings.CutSuffix(pid, "]")
		if _, err := strconv.ParseUint(digits, 10, 64); err != nil || !closed {
			return "", false
		}
	}
	return message, program == "sshd" || program == "sshd-session"
}

// cutTime cuts off "Dec  1 06:55:46 " (RFC 3164) or an ISO 8601 time.
func cutTime(line string) (string, bool) {
	const seconds = "2006-01-02T15:04:05"
	if n := len(time.Stamp); len(line) > n && line[n] == ' ' {
		if _, err := time.Parse(time.Stamp, line[:n]); err == nil {
			return line[n+1:], true
		}
	}
	stamp, rest, ok := strings.Cut(line, " ")
	if !ok || len(stamp) < len(seconds) {
		return "", false
	}
	_, err := time.Parse(seconds, stamp[:len(seconds)])
	return rest, err == nil
}

// unrepeat unpacks "message repeated N times: [ MESSAGE]", which syslog daemons write
// in place of equal consecutive lines.
func unrepeat(message string) (inner string, times int, ok bool) {
	rest, folded := strings.CutPrefix(message, "message repeated ")
	if !folded {
		return message, 1, true
	}
	number, rest, ok := strings.Cut(rest, " times: [ ")
	if !ok {
		return "", 0, false
	}
	times, err := strconv.Atoi(number)
	if err != nil || times < 1 || times > maxRepeats {
		return "", 0, false
	}
	inner, ok = strings.CutSuffix(rest, "]")
	return inner, times, ok
}

// parseMessage reads "Failed password for [invalid user ]U from IP port P ssh2"
// and "Accepted METHOD for U from IP port P ssh2[: KEY]".
func parseMessage(message string) (a attempt, ok bool) {
	if rest, failed := strings.CutPrefix(message, "Failed password for "); failed {
		// The attacker chooses the user, which may be "x from 192.0.2.1 port 22 ssh2".
		// Only the last " from " is surely sshd's.
		i := strings.LastIndex(rest, " from ")
		if i < 0 {
			return attempt{}, false
		}
		a.user, a.outcome = strings.TrimPrefix(rest[:i], "invalid user "), service.OutcomeFailure
		a.addr, ok = parseSource(rest[i+len(" from "):], false)
		return a, ok
	}
	rest, accepted := strings.CutPrefix(message, "Accepted ")
	method, rest, found := strings.Cut(rest, " for ")
	if !accepted || !found || method == "" || strings.Contains(method, " ") {
		return attempt{}, false
	}
	// This user exists on the host. But the text of a certificate may follow, which
	// somebody else wrote. So only the first " from " is surely sshd's.
	a.outcome = service.OutcomeSuccess
	a.user, rest, ok = strings.Cut(rest, " from ")
	if !ok {
		return attempt{}, false
	}
	a.addr, ok = parseSource(rest, true)
	return a, ok
}

// parseSource reads "IP port P", which may be followed by " ssh2", and if withKey is
// true also by ": KEY".
func parseSource(text string, withKey bool) (netip.Addr, bool) {
	if source, _, ok := strings.Cut(text, ": "); ok && withKey {
		text = source
	}
	ip, rest, ok := strings.Cut(text, " port ")
	if !ok {
		return netip.Addr{}, false
	}
	port, protocol, _ := strings.Cut(rest, " ")
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return netip.Addr{}, false
	}
	if protocol != "" && protocol != "ssh2" && protocol != "ssh1" {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(ip)
	return addr.Unmap(), err == nil
}

// lineReader splits a log into lines, in constant memory.
type lineReader struct {
	in *bufio.Reader
}

func newLineReader(in io.Reader) lineReader {
	return lineReader{in: bufio.NewReaderSize(in, maxLine)}
}

// next returns the next line and its length in bytes, or io.EOF. For a line longer than
// maxLine it returns "", which is not an attempt.
func (r lineReader) next() (line string, size int, err error) {
	piece, err := r.in.ReadSlice('\n')
	size, line = len(piece), string(piece)
	for errors.Is(err, bufio.ErrBufferFull) {
		line = ""
		piece, err = r.in.ReadSlice('\n')
		size += len(piece)
	}
	if errors.Is(err, io.EOF) && size > 0 {
		err = nil // the last line needs no line end
	}
	return line, size, err
}
