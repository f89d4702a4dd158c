package replay

import (
	"regexp"
	"strings"
)

// head is the part of a log's line that the system's logger wrote, and the message behind it.
type head struct {
	time    string // as the line has it
	host    string // "" where lines name none
	program string
	pid     string // "" where lines name none
	message string
}

// Parts of heads. Where a part that may be absent looks like the one behind it, the shorter reading is
// tried first.
const (
	container = `^(?:[\w.-]+ +\| )?` // docker compose logs
	priority  = `(?:<\d{1,3}>)?`
	clock     = `\d\d:\d\d:\d\d(?:[.,]\d+)?`
	zone      = `(?:Z| ?[+-]\d\d(?::?\d\d)?| [A-Z]{2,5})??`
	weekday   = `(?:\S{1,12} )??`                                                  // in the system's language
	bsdTime   = weekday + `\S{1,12} +\d{1,2} (?:\d{4} )?` + clock + `(?: \d{4})??` // Nov 26 09:07:57
	isoTime   = weekday + `\d{4}-\d\d-\d\d[T ]` + clock + zone
	bareTime  = `\d{9,10}\.\d+|\[ *\d+\.\d+(?: <[^>]*>)?\]` // journalctl -o short-unix, short-monotonic, short-delta
	anyTime   = `(` + bsdTime + `|` + isoTime + `|` + bareTime + `)`
	// Busybox, AIX, FreeBSD -v.
	facility  = `(?: <?(?:auth|authpriv|auth\|security|daemon|user|syslog|local\d|\d+)[.:]\w+>?)?`
	host      = `(?: +(\S+))??`
	program   = ` +(\S+?)(?:\[(\d+)\])?: `
	solarisID = `(?:\[ID \d+ \S+\] )?`
	structure = `(?:-|(?:\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])+)` // RFC 5424
)

// heads are the forms of heads. The groups of each are those of type head, in order.
var heads = []*regexp.Regexp{ //nolint:gochecknoglobals // a table that nothing changes
	// TIME HOST PROGRAM[PID]: MESSAGE, with the insertions of several loggers.
	regexp.MustCompile(container + priority + anyTime + facility + host + facility + program + solarisID + `(.*)`),
	// RFC 5424: <PRIORITY>1 TIME HOST PROGRAM PID ID STRUCTURE MESSAGE
	regexp.MustCompile(container + `<\d{1,3}>1 (-|` + isoTime + `) (\S+) (\S+) (\S+) \S+ ` + structure + ` \x{FEFF}?(.*)`),
	// TIME HOST last message repeated 2 times, which names no program.
	regexp.MustCompile(container + priority + anyTime + facility + host + facility + ` ()()((?:--- )?last message .*)`),
}

// splitHead returns the parts of a line without its line end, or false if its form is not known.
// The program's name is looked for there alone: a client can have it written elsewhere in a line.
func splitHead(line string) (head, bool) {
	if strings.HasPrefix(line, "{") {
		return journalHead(line)
	}
	for _, form := range heads {
		if m := form.FindStringSubmatch(line); m != nil {
			return head{m[1], m[2], m[3], m[4], m[5]}, true
		}
	}
	return head{message: line}, false
}

// isSSHD says that sshd wrote the message. journalctl -o with-unit names the unit in the place of the
// program.
func (h head) isSSHD() bool {
	switch strings.TrimSuffix(h.program, ".service") {
	case "sshd", "sshd-session", "sshd-auth", "ssh":
		return true
	}
	return false
}

// isLogger says that the system's logger itself wrote the message.
func (h head) isLogger() bool { return h.program == "" || strings.Contains(h.program, "syslog") }
