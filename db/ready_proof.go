package db

import (
	"context"

	"velocityd/db/session"
)

// obstacle is an error of something that a decision needs.
type obstacle struct {
	right  string // what the account needs for it
	object string // on what
	way    string // what is not possible without; empty for checks
	error
}

func (o obstacle) Unwrap() error { return o.error }

// proof collects the statements that prove one thing each, and sends them as one packet.
type proof struct {
	session.Reading
	steps []obstacle // of each result set
}

// add adds the statements that write writes, each with a result set.
func (p *proof) add(right, object string, write func(*session.Reading)) {
	write(&p.Reading)
	for len(p.steps) < len(p.Readers) {
		p.steps = append(p.steps, obstacle{right: right, object: object})
	}
}

// read adds a statement that answers with rows, or with none.
func (p *proof) read(object, statement string) {
	p.add("SELECT", object, func(r *session.Reading) {
		r.SQL(statement).SQL(";")
		r.Skip()
	})
}

// write adds a statement that returns no rows. The row of a SELECT behind it tells that it is done.
func (p *proof) write(right, object, statement string) {
	p.add(right, object, func(r *session.Reading) {
		r.SQL(statement).SQL("; SELECT 1;")
		r.Skip()
	})
}

// ask sends the packet. The error is an obstacle.
func (p *proof) ask(ctx context.Context, conn *session.Conn) error {
	err := p.Send(ctx, conn)
	if err == nil {
		return nil
	}
	at := p.steps[min(p.Answered, len(p.steps)-1)]
	at.error = err
	return at
}
