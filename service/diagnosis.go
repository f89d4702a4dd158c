package service

import "context"

// Diagnosis is one finding of an examination, in words for operators.
type Diagnosis struct {
	Level string `json:"level"` // ok, note, warning or fault
	About string `json:"about"` // one word or two, the same for all of one kind
	Is    string `json:"is"`
	Do    string `json:"do,omitzero"` // the cure; empty if nothing has to be done
}

// Examine looks whether the database is fit for the service, and changes nothing. It may take many seconds, and ends
// when ctx does. Its error is that of an examination that could not begin: a database that is away is a Diagnosis.
type Examine func(ctx context.Context) ([]Diagnosis, error)
