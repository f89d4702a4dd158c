package handlers

import (
	"testing"

	"velocityd/handlers/handlerstest"
	"velocityd/service/servicetest"
)

func TestHTTPKeepsTotals(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseTotals(t, func(t *testing.T) servicetest.TotalsSubject {
		r := start(t, nil)
		client := handlerstest.New(r.url)
		t.Cleanup(client.Close)
		return servicetest.TotalsThrough(r.Store, client)
	})
}

// TestHTTPKeepsTheContractOfAStore asks for claims that together need each path and member of the answers.
func TestHTTPKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
		r := start(t, nil)
		client := handlerstest.New(r.url)
		t.Cleanup(client.Close)
		return servicetest.Through(servicetest.InMemory(r.Store), client)
	}, []string{
		"AgreesWithTheOracleOnRandomTimelines", "EveryVerdictAndItsTxnTellWhy", "BatchMixesAllowedDeniedAndBad",
		"BadKeysAreRefusedAndRecordNothing", "ASecretIsChargedOnceAndGuessesAreCharged", "AttemptIsRecalledAsItWasAnswered",
		"ReportsOfABatchAreTakenInOrder", "OutcomeByAttemptIDSpeaksForTheWholeCheck", "PeekShowsLockoutAndOverride",
		"ReleaseEndsALockoutAndForgetsIt",
	})
}
