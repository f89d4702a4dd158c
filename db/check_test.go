package db

import (
	"testing"

	"velocityd/db/dbtest"
	"velocityd/service/servicetest"
)

func TestProcStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
			d := engine.Database(t)
			return bench{NewProcStore(connect(t, d, Options{})), d}
		})
	})
}

func TestBatchProcedureKeepsTheContractAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
			d := engine.Database(t)
			return bench{&ProcStore{pool: connect(t, d, Options{}), batchOnly: true}, d}
		})
	})
}
