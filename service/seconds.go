package service

import (
	"strconv"
	"time"
)

// Seconds returns n seconds, which is how SQL, HTTP and the command line write a
// duration. A number that no Duration holds must not come round as a small one:
// it becomes more than any setting may be.
func Seconds(n int64) time.Duration {
	d := time.Duration(n) * time.Second
	if d/time.Second != time.Duration(n) {
		return MaxWindow + time.Second
	}
	return d
}

// WholeSeconds returns d in seconds, rounded down.
func WholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// secondsText writes d in seconds, with a fraction if it has one: 90 or 0.5.
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
