package main

import (
	"context"
	"errors"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

func TestDevBeginsAgainAfterAFirstStartThatWasKilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		folder := t.TempDir()
		server := engine.Private(t, t.TempDir())
		d := privateDatabase{folder: folder, socket: server.Socket()}
		ctx := context.Background()
		if err := d.create(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.Up(ctx, d.dsn()); err != nil {
			t.Fatal(err)
		}
		const killed = "UPDATE velocityd.schema_migrations SET version = 103, dirty = TRUE"
		if err := d.administer(ctx, killed); err != nil {
			t.Fatal(err)
		}
		if err := d.prepare(ctx); err != nil {
			t.Fatalf("start after one that was killed in a migration: %v", err)
		}
		if zones, err := d.zones(ctx); err != nil || len(zones) != 2 {
			t.Errorf("zones %+v, %v, want the two demo zones", zones, err)
		}
		// Now there is something to lose.
		if err := d.administer(ctx, killed); err != nil {
			t.Fatal(err)
		}
		if err := d.prepare(ctx); !errors.Is(err, migrations.ErrDirty) {
			t.Errorf("dirty schema with zones in it: %v, want ErrDirty", err)
		}
	})
}
