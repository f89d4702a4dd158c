package enginetest

import (
	"context"

	"velocityd/db/localdb"
)

// Kill ends a server as an unexpected kill does.
func Kill(server *localdb.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(ctx) // says that it was killed
}
