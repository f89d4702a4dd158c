package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	// maxLine is the longest line of a log that is parsed, in bytes.
	maxLine = 64 << 10
	// maxShown is how much is shown of a line that could not be read, in bytes.
	maxShown = 500
	// recentSize is how many processes and hosts a reader remembers at least.
	recentSize = 4096
)

// reader makes attempts of lines. It remembers the newest ones, because one attempt may be two lines, and
// a line may stand for many like the one before.
type reader struct {
	before   recent[string, attempt]  // by host, that of its last line
	told     recent[process, attempt] // failures of which PAM has told, and sshd may tell again
	lastHost string
	time     string // of the last line, as it has it; "" if the line's form is not known

	skipped Skipped
}

// process is one of sshd's, which has one login to look after.
type process struct{ host, pid string }

// read returns the attempts that a line adds to those of the lines before; times is 0 if it adds none.
func (r *reader) read(line string) attempt {
	line = strings.TrimRight(line, "\r\n")
	r.skipped.Lines++
	r.skipped.isBinary = r.skipped.isBinary || strings.Contains(line, "\x00")
	h, known := splitHead(line)
	r.time = h.time
	if !known {
		r.miss(line, likeAttempt.FindStringSubmatch(line))
		return attempt{}
	}
	if h.host == "" {
		h.host = r.lastHost
	}
	r.lastHost = h.host
	if m := again.FindStringSubmatch(h.message); m != nil && h.isLogger() {
		a := r.before.get(h.host)
		times, _ := strconv.Atoi(m[1]) // digits that again has found
		a.times *= times
		return a
	}
	a, adds := r.attempt(h, line)
	r.before.put(h.host, a)
	a.times = adds
	return a
}

// attempt returns the attempt that the message of a head is about, once, and how many attempts it adds.
func (r *reader) attempt(h head, line string) (attempt, int) {
	message, times := h.message, 1
	if m := folded.FindStringSubmatch(message); m != nil {
		message = m[2]
		times, _ = strconv.Atoi(m[1]) // digits that folded has found
	}
	// The part of sshd that has no rights yet passes such messages on, and decides nothing.
	if strings.HasSuffix(message, " [preauth]") {
		return attempt{}, 0
	}
	a, method, ok := parseMessage(message)
	if !ok || !h.isSSHD() {
		if found := likeAttempt.FindStringSubmatch(message); found != nil && strings.HasPrefix(message, found[0]) {
			r.miss(line, found)
		}
		return attempt{}, 0
	}
	p := process{h.host, h.pid}
	told := r.told.get(p)
	switch {
	case method == "PAM":
		r.told.put(p, a)
		return a, times
	case told.times > 0:
		r.told.put(p, attempt{})
		if strings.HasPrefix(method, "keyboard-interactive") && a.user == told.user && a.outcome == told.outcome {
			return a, times - 1
		}
	}
	return a, times
}

// miss notes a line in which likeAttempt found this, if it is not of method none.
func (r *reader) miss(line string, found []string) {
	if found == nil || found[1] == "none" {
		return
	}
	if r.skipped.Unread++; r.skipped.Unread == 1 {
		r.skipped.FirstUnread = line[:min(len(line), maxShown)]
	}
}

// recent is a map of bounded size: it keeps at least the recentSize keys that were put last.
type recent[K comparable, V any] struct{ newer, older map[K]V }

func (m *recent[K, V]) get(key K) V {
	if value, ok := m.newer[key]; ok {
		return value
	}
	return m.older[key]
}

func (m *recent[K, V]) put(key K, value V) {
	if m.newer == nil || len(m.newer) >= recentSize {
		m.newer, m.older = map[K]V{}, m.newer
	}
	m.newer[key] = value
}

// nextLine returns the next line of a log, or io.EOF. For a line longer than maxLine it returns "", which is not an
// attempt.
func nextLine(log *bufio.Reader) (line string, err error) {
	piece, err := log.ReadSlice('\n')
	size, line := len(piece), string(piece)
	for errors.Is(err, bufio.ErrBufferFull) {
		line = ""
		piece, err = log.ReadSlice('\n')
		size += len(piece)
	}
	if errors.Is(err, io.EOF) && size > 0 {
		err = nil // the last line needs no line end
	}
	return line, err
}

// unpacked returns a log whose lines can be read in constant memory, without gzip if its first bytes are those of a
// gzip.
func unpacked(log io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(log, maxLine)
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		return in, nil
	}
	inner, err := gzip.NewReader(in)
	return bufio.NewReaderSize(inner, maxLine), err
}
