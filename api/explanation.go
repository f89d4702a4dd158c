package api

import (
	"velocityd/service"
	"velocityd/service/explain"
)

// Explanation is the answer of GET /v1/txns/{id}/explanation. Members that are not known, or that have no meaning for the
// attempt, are left out.
type Explanation struct {
	Summary string `json:"summary"`
	// Agrees says that the attempt is decided again as it is recorded, by all that follows.
	Agrees   bool      `json:"agrees"`
	Unknown  []Gap     `json:"unknown,omitzero"`
	Txn      Txn       `json:"txn"`
	Zone     *Zone     `json:"zone,omitzero"`
	Override *Override `json:"override,omitzero"`
	Lockout  *Lockout  `json:"lockout,omitzero"`
	// Rate, Window, Since and Velocity are the limit, and how many txns counted by it before the attempt. They are left out
	// if no limit decided.
	Rate     *int    `json:"rate,omitzero"`
	Window   int64   `json:"window,omitzero"`
	Since    Instant `json:"since,omitzero"`
	Velocity *int    `json:"velocity,omitzero"`
	Counted  []Txn   `json:"counted"`
	OpensAt  Instant `json:"opens_at,omitzero"`
	Others   []Txn   `json:"others"`
	Previous *Txn    `json:"previous,omitzero"`
	Next     *Txn    `json:"next,omitzero"`
}

// Gap is a part of an explanation that is not known any more, and why.
type Gap struct {
	Part explain.Part `json:"part"`
	Why  string       `json:"why"`
}

// Lockout is one lockout of a bucket.
type Lockout struct {
	BeganAt Instant `json:"began_at"`
	Until   Instant `json:"until"`
	Shadow  bool    `json:"shadow,omitzero"`
	TxnID   ID      `json:"txn_id,omitzero"`
}

// NewExplanation returns the answer for an explanation.
func NewExplanation(x explain.Explanation) Explanation {
	answer := Explanation{
		Summary: x.Summary, Agrees: x.Agrees, Txn: NewTxn(x.Txn), OpensAt: Instant(x.OpensAt.Time),
		Counted: newTxns(x.Counted), Others: newTxns(x.Others),
	}
	for _, g := range x.Unknown {
		answer.Unknown = append(answer.Unknown, Gap(g))
	}
	if x.Zone != nil {
		answer.Zone = new(NewZone(*x.Zone))
		if !x.Unmetered {
			answer.Rate, answer.Window, answer.Since, answer.Velocity = &x.Rate, service.WholeSeconds(x.Window.Duration), Instant(x.Since.Time), &x.Velocity
		}
	}
	if x.Override != nil {
		answer.Override = new(NewOverride(*x.Override))
	}
	if l := x.Lockout; l != nil {
		answer.Lockout = &Lockout{BeganAt: Instant(l.Began()), Until: Instant(l.Until), Shadow: l.Shadow, TxnID: ID(l.TxnID)}
	}
	if x.Previous != nil {
		answer.Previous = new(NewTxn(*x.Previous))
	}
	if x.Next != nil {
		answer.Next = new(NewTxn(*x.Next))
	}
	return answer
}

// newTxns returns the answers for txns.
func newTxns(txns []service.Txn) []Txn {
	answers := make([]Txn, len(txns))
	for i, t := range txns {
		answers[i] = NewTxn(t)
	}
	return answers
}

// Explanation converts the answer to the type of package explain.
func (a Explanation) Explanation() explain.Explanation {
	x := explain.Explanation{
		Summary: a.Summary, Agrees: a.Agrees, Txn: a.Txn.Txn(), OpensAt: service.At(a.OpensAt.Time()), Unmetered: a.Rate == nil,
		Window: service.Lasting(service.Seconds(a.Window)), Since: service.At(a.Since.Time()), Counted: txnsOf(a.Counted), Others: txnsOf(a.Others),
	}
	for _, g := range a.Unknown {
		x.Unknown = append(x.Unknown, explain.Gap(g))
	}
	if a.Zone != nil {
		x.Zone = new(a.Zone.Zone())
	}
	if a.Rate != nil && a.Velocity != nil {
		x.Rate, x.Velocity = *a.Rate, *a.Velocity
	}
	if a.Override != nil {
		x.Override = new(a.Override.Override())
	}
	if l := a.Lockout; l != nil {
		x.Lockout = &explain.Lockout{TxnID: uint64(l.TxnID)}
		x.Lockout.Until, x.Lockout.Length, x.Lockout.Shadow = l.Until.Time(), l.Until.Time().Sub(l.BeganAt.Time()), l.Shadow
	}
	if a.Previous != nil {
		x.Previous = new(a.Previous.Txn())
	}
	if a.Next != nil {
		x.Next = new(a.Next.Txn())
	}
	return x
}

// txnsOf converts answers to the type of package service.
func txnsOf(answers []Txn) []service.Txn {
	txns := make([]service.Txn, len(answers))
	for i, a := range answers {
		txns[i] = a.Txn()
	}
	return txns
}
