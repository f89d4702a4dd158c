// Command oapi asks a service by the client that oapi-codegen makes of api/openapi.yaml: may this attempt go ahead? It
// then reports the attempt as a success, and prints the txn's id. A test of package client makes the client's file
// beside this one, in a copy of this folder.
//
//	oapi http://127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	txn, err := ask(ctx, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "oapi:", err)
		os.Exit(1)
	}
	fmt.Println(txn)
}

// ask makes an attempt, reports its success and returns the id of its txn.
func ask(ctx context.Context, url string) (ID, error) {
	velocity, err := NewClientWithResponses(url)
	if err != nil {
		return "", err
	}
	attempt := "7f3c2a90-1c5e-4b7d-9a53-0e6f4f0a7a11"
	var question Check
	if err := question.FromListCheck(
		ListCheck{AttemptId: &attempt, Buckets: []Bucket{{ZoneId: 1, BucketKey: "alice"}}}); err != nil {
		return "", err
	}
	answer, err := velocity.CheckWithResponse(ctx, nil, question)
	if err != nil {
		return "", err
	}
	if answer.JSON200 == nil || answer.JSON200.Blocked {
		return "", fmt.Errorf("the check was answered with %s: %s", answer.Status(), answer.Body)
	}
	receipt, err := velocity.ReportAttemptWithResponse(ctx, attempt, nil, OutcomeRequest{Outcome: "success"})
	if err != nil {
		return "", err
	}
	if receipt.StatusCode() != http.StatusOK {
		return "", fmt.Errorf("the report was answered with %s: %s", receipt.Status(), receipt.Body)
	}
	return *answer.JSON200.TxnId, nil
}
