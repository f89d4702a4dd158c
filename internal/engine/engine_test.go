package engine_test

import (
	"testing"

	"velocityd/internal/engine"
)

func TestOfTellsTheEngineByItsAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		version, comment string
		want             engine.Engine
	}{
		{"9.7.0", "MySQL Community Server - GPL", engine.MySQL},
		{"10.11.6-MariaDB-log", "Debian 12", engine.MySQL},
		{"8.0.11-TiDB-v8.5.1", "TiDB Server (Apache License 2.0)", engine.TiDB},
		{"8.4.6-Vitess", "Version: 24.0.3", engine.Vitess},
		{"8.4.6", "Version: 24.0.3 (Git revision 1, vitess)", engine.Vitess},
		{"", "", engine.MySQL},
	} {
		if got := engine.Of(tc.version, tc.comment); got != tc.want {
			t.Errorf("%q with %q is %s, want %s", tc.version, tc.comment, got, tc.want)
		}
	}
}
