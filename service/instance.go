package service

import (
	"context"
	"time"
)

// Instance is an instance of the service, as it says of itself every few seconds. Its numbers are of checks since its start.
type Instance struct {
	Name      string // drawn by chance at each start
	Host      string
	Version   string
	StartedAt time.Time // the first sign, by the engine's clock
	SeenAt    time.Time // the last sign
	IsSilent  bool      // it has given no sign for InstanceSilence, and so has ended or cannot reach the database
	Allowed   uint64
	Blocked   uint64
	Undecided uint64
}

const (
	// InstancePause is the time between two signs of an instance.
	InstancePause = 5 * time.Second
	// InstanceSilence is the time without a sign after which an instance is silent.
	InstanceSilence = 3 * InstancePause
	// InstanceMemory is the time without a sign after which an instance is forgotten.
	InstanceMemory = 24 * time.Hour
	// MaxInstances bounds the instances of one list.
	MaxInstances = 1000
)

// InstanceLister lists the instances that have given a sign within InstanceMemory, those that started last first.
type InstanceLister interface {
	Instances(ctx context.Context) ([]Instance, error)
}
