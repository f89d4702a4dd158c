package main

import (
	"database/sql"
	"sync"
	"testing"
)

// told has the answers to callers, by key.
type told[A comparable] struct {
	mu      sync.Mutex
	answers map[string]A
}

func newTold[A comparable]() *told[A] { return &told[A]{answers: map[string]A{}} }

func (o *told[A]) note(key string, answer A) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[key] = answer
}

func (o *told[A]) count(answer A) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.answers {
		if a == answer {
			n++
		}
	}
	return n
}

// recordedBy returns the answer to a query of names and numbers, such as how many txns a key has.
func recordedBy(t *testing.T, on *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := on.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	recorded := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		recorded[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return recorded
}
