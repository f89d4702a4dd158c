package servicetest_test

import (
	"testing"

	"velocityd/service/servicetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(*testing.T) servicetest.Bench { return servicetest.NewMemory() })
}
