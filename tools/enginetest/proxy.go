package enginetest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Proxy stands between clients and their engine, so that a test can act at a certain step of their
// conversation.
type Proxy struct {
	// DSN reaches the database through the proxy.
	DSN string
	// Withhold keeps back the end of every answer of the engine, while it is true.
	Withhold atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
	steps []*step
}

// step is something to do, once, when a client sends a certain text.
type step struct {
	text   []byte
	answer bool // not before the packet, but before its answer
	do     func()
}

// tail is a part of the packet that closes the answer of a CALL, in bytes.
const tail = 5

// Through returns a proxy in front of the server of a DSN, until the test's end.
// It skips the test if the DSN names no socket.
func Through(tb testing.TB, dsn string) *Proxy {
	tb.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		tb.Skip("the proxy speaks to a socket")
	}
	dir, err := os.MkdirTemp("", "p") //nolint:usetesting // its folder, named after the test, may be too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	engine := cfg.Addr
	cfg.Addr = filepath.Join(dir, "p.sock")
	listener, err := net.Listen("unix", cfg.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{DSN: cfg.FormatDSN()}
	AtEnd(tb, func() { _ = listener.Close(); p.Cut() })
	go p.accept(listener, engine)
	return p
}

// Before calls do when the next packet that holds text comes from a client, before
// it is passed on.
func (p *Proxy) Before(text string, do func()) { p.add(&step{text: []byte(text), do: do}) }

// BeforeAnswer calls do when the engine answers the next packet that holds text,
// before any of the answer is passed on.
func (p *Proxy) BeforeAnswer(text string, do func()) {
	p.add(&step{text: []byte(text), answer: true, do: do})
}

func (p *Proxy) add(s *step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, s)
}

// Cut ends all connections. Data on their way are lost; the engine goes on with its statements.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

func (p *Proxy) accept(listener net.Listener, engineSocket string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("unix", engineSocket)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, engine)
		p.mu.Unlock()
		answers := make(chan *step, 8) // more than are ever waited for
		go p.pass(client, engine, func(packet []byte) []byte {
			p.meet(packet, answers)
			return packet
		})
		go p.pass(engine, client, func(packet []byte) []byte {
			select {
			case s := <-answers:
				s.do()
			default:
			}
			if p.Withhold.Load() && len(packet) > tail {
				return packet[:len(packet)-tail]
			}
			return packet
		})
	}
}

// pass hands data on in pieces as they come: a short packet is one piece.
func (p *Proxy) pass(from, to net.Conn, through func([]byte) []byte) {
	defer from.Close()
	defer to.Close()
	piece := make([]byte, 1<<20)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		if _, err := to.Write(through(piece[:n])); err != nil {
			return
		}
	}
}

// meet carries out the step before a packet, and notes the step before its answer.
func (p *Proxy) meet(packet []byte, answers chan<- *step) {
	p.mu.Lock()
	var met *step
	for i, s := range p.steps {
		if bytes.Contains(packet, s.text) {
			met = s
			p.steps = append(p.steps[:i:i], p.steps[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	switch {
	case met == nil:
	case met.answer:
		answers <- met
	default:
		met.do()
	}
}
