package service

import (
	"math"
	"strconv"
	"time"
)

// Seconds returns a duration of n seconds. What a Duration cannot hold becomes the
// longest whole number of seconds that it can, about 292 years, or its negative: both
// are out of bounds wherever this package has bounds.
func Seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}

// WholeSeconds returns how many whole seconds d has. It drops the fraction.
func WholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// roundUp returns d in whole seconds, rounded up.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// secondsText writes d in seconds, with a fraction if it has one: 90 or 0.5.
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
