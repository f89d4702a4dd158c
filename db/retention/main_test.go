package retention_test

import (
	"testing"

	"velocityd/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
