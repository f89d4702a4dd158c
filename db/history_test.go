package db

import (
	"testing"

	"velocityd/db/dbtest"
	"velocityd/service/servicetest"
)

func TestStoreKeepsTheContractOfHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.ExerciseHistory(t, func(t *testing.T) servicetest.HistorySubject { return newBench(t, engine.Database(t)) })
	})
}
