package api

import (
	"time"

	"velocityd/service"
)

// Diagnosis is the answer of GET /v1/diagnosis.
type Diagnosis struct {
	At       Instant   `json:"at"`
	Faults   int       `json:"faults"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

// Finding is one finding, with its cure if it has one.
type Finding struct {
	Level string `json:"level"`
	About string `json:"about"`
	Is    string `json:"is"`
	Do    string `json:"do,omitzero"`
}

// NewDiagnosis returns the answer for an examination that ended at an instant.
func NewDiagnosis(list []service.Diagnosis, at time.Time) Diagnosis {
	answer := Diagnosis{At: Instant(at), Findings: make([]Finding, len(list))}
	for i, f := range list {
		answer.Findings[i] = Finding(f)
		switch f.Level {
		case "fault":
			answer.Faults++
		case "warning":
			answer.Warnings++
		}
	}
	return answer
}

// List converts the answer to the type of package service.
func (d Diagnosis) List() []service.Diagnosis {
	list := make([]service.Diagnosis, len(d.Findings))
	for i, f := range d.Findings {
		list[i] = service.Diagnosis(f)
	}
	return list
}
