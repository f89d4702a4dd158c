package main

import "context"

func (w *world) tell(ctx context.Context) {}

func (w *world) judgeHistories(rows map[uint64]row, v *verdict) {}
