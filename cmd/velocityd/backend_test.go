package main

import (
	"context"
	"errors"
	"testing"

	"velocityd/service"
)

func TestBackendThatIsNotReachedIsBusyWithEverything(t *testing.T) {
	t.Parallel()
	b, ctx, bucket := &backend{}, context.Background(), service.Bucket{ZoneID: 1, Key: "alice"}
	for name, question := range map[string]func() error{
		"CheckAll":       func() error { _, err := b.CheckAll(ctx, []service.Check{{}}); return err },
		"ReportAll":      func() error { _, err := b.ReportAll(ctx, []service.Report{{}}); return err },
		"Txn":            func() error { _, err := b.Txn(ctx, 1); return err },
		"Peek":           func() error { _, err := b.Peek(ctx, bucket); return err },
		"Release":        func() error { return b.Release(ctx, bucket, "", "") },
		"Zones":          func() error { _, err := b.Zones(ctx); return err },
		"Zone":           func() error { _, err := b.Zone(ctx, 1); return err },
		"PutZone":        func() error { _, err := b.PutZone(ctx, service.Zone{}, service.Match{}, ""); return err },
		"DeleteZone":     func() error { return b.DeleteZone(ctx, 1, service.Match{}, "") },
		"Overrides":      func() error { _, err := b.Overrides(ctx, 1, 0, 1); return err },
		"Override":       func() error { _, err := b.Override(ctx, 1, 1); return err },
		"AddOverride":    func() error { _, err := b.AddOverride(ctx, service.Override{}, ""); return err },
		"SetOverride":    func() error { _, err := b.SetOverride(ctx, service.Override{}, ""); return err },
		"DeleteOverride": func() error { return b.DeleteOverride(ctx, 1, 1, "") },
	} {
		if err := question(); !errors.Is(err, service.ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
