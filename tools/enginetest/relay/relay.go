// Package relay stands between clients and an engine, so that a test can act at a certain step of what they say,
// and break it as networks do. It must not know what they say.
package relay

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Relay hands on what clients and an engine say.
type Relay struct {
	// Withhold keeps back the end of the next answer of the engine on each connection, and all after it.
	Withhold atomic.Bool
	// Stall hands nothing on while it is true. Data wait, and new connections are accepted.
	Stall atomic.Bool
	// Refuse closes new connections at once, while it is true.
	Refuse atomic.Bool

	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	steps    []*step
}

// step is something to do, once, when a client sends a certain text.
type step struct {
	text   []byte
	answer bool // not before the packet, but before its answer
	do     func()
}

const (
	tail  = 5                     // bytes of the packet that closes the answer of a CALL
	pause = 10 * time.Millisecond // between two looks at Stall
)

// Listen returns a relay at an address, in front of the unix socket of an engine. The socket need not be there yet.
func Listen(network, address, engineSocket string) (*Relay, error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener}
	go r.accept(engineSocket)
	return r, nil
}

// Address is the one that clients connect to.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Close ends the relay and all of its connections.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.Stall.Store(false)
	r.Cut()
}

// Before calls do when the next packet that holds text comes from a client, before
// it is passed on.
func (r *Relay) Before(text string, do func()) { r.add(&step{text: []byte(text), do: do}) }

// BeforeAnswer calls do when the engine answers the next packet that holds text,
// before any of the answer is passed on.
func (r *Relay) BeforeAnswer(text string, do func()) {
	r.add(&step{text: []byte(text), answer: true, do: do})
}

func (r *Relay) add(s *step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

// Cut ends all connections. Data on their way are lost; the engine goes on with its statements.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}

func (r *Relay) accept(engineSocket string) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("unix", engineSocket)
		if err != nil || r.Refuse.Load() {
			_ = client.Close()
			if err == nil {
				_ = engine.Close()
			}
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, engine)
		r.mu.Unlock()
		answers := make(chan *step, 8) // more than are ever waited for
		go r.pass(client, engine, func(packet []byte) []byte {
			r.meet(packet, answers)
			return packet
		})
		isWithheld := false
		go r.pass(engine, client, func(packet []byte) []byte {
			select {
			case s := <-answers:
				s.do()
			default:
			}
			switch {
			case isWithheld: // a network loses no bytes in the middle
				return nil
			case r.Withhold.Load() && len(packet) > tail:
				isWithheld = true
				return packet[:len(packet)-tail]
			}
			return packet
		})
	}
}

// pass hands data on in pieces as they come: a short packet is one piece.
func (r *Relay) pass(from, to net.Conn, through func([]byte) []byte) {
	defer from.Close()
	defer to.Close()
	piece := make([]byte, 1<<20)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		for r.Stall.Load() {
			time.Sleep(pause)
		}
		if _, err := to.Write(through(piece[:n])); err != nil {
			return
		}
	}
}

// meet carries out the step before a packet, and notes the step before its answer.
func (r *Relay) meet(packet []byte, answers chan<- *step) {
	r.mu.Lock()
	var met *step
	for i, s := range r.steps {
		if bytes.Contains(packet, s.text) {
			met = s
			r.steps = append(r.steps[:i:i], r.steps[i+1:]...)
			break
		}
	}
	r.mu.Unlock()
	switch {
	case met == nil:
	case met.answer:
		answers <- met
	default:
		met.do()
	}
}
