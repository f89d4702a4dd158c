// Command go is a caller of velocityd in Go: it asks before a login, and reports how the login ended.
// docs/clients.md describes it.
package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	"velocityd/client"
	"velocityd/service"
)

const failOpen = false // the policy for as long as there is no decision

// connect returns the client that the environment describes.
func connect() (*client.Client, error) {
	options := []client.Option{client.WithToken(os.Getenv("VELOCITY_TOKEN"))}
	if file := os.Getenv("VELOCITY_CA"); file != "" {
		pem, err := os.ReadFile(file)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s: %w", file, err)
		}
		options = append(options, client.WithRootCAs(roots))
	}
	return client.New(cmp.Or(os.Getenv("VELOCITY_URL"), "http://127.0.0.1:8080"), options...)
}

// isName says whether an account can have this name: whether it is a key of zone 1.
func isName(user string) bool {
	key, err := service.KeyRule{Kind: service.KeyUsername}.Normalize(user)
	return cmp.Or(err, service.Bucket{ZoneID: 1, Key: user}.Validate(),
		service.Bucket{ZoneID: 1, Key: key}.Validate()) == nil
}

// mayTry says whether a login attempt may go ahead. The txn is for the report; 0 means that there is
// nothing to report.
func mayTry(velocity client.CheckReporter, user string, address netip.Addr) (allowed bool, txn uint64) {
	if !isName(user) {
		return false, 0 // answer as to a wrong password
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // for all tries together
	defer cancel()
	decision, err := velocity.Check(ctx, service.Check{Buckets: []service.Bucket{
		{ZoneID: 1, Key: user},
		{ZoneID: 2, Key: address.WithZone("").String()},
	}})
	switch {
	case err == nil:
		return !decision.Blocked, decision.TxnID()
	case errors.Is(err, service.ErrBusy), errors.Is(err, service.ErrUndecided), errors.Is(err, context.DeadlineExceeded):
		log.Printf("velocityd has not answered: %v", err)
	default:
		log.Printf("ALERT: velocityd refuses our calls, and will until that is mended: %v", err)
	}
	return failOpen, 0
}

func main() {
	velocity, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	allowed, txn := mayTry(velocity, "alice", netip.MustParseAddr("203.0.113.9"))
	fmt.Println("allowed:", allowed)
	if allowed && txn != 0 { // look at the password, then say how it ended
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := velocity.Report(ctx, service.Report{TxnID: txn, Outcome: service.OutcomeSuccess}); err != nil {
			log.Printf("the outcome was not reported: %v", err) // the login goes on
		}
	}
}
