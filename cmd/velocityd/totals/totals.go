// Package totals prints numbers of attempts for people. It must not know where they come from.
package totals

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"velocityd/service"
)

// Write prints spans as a table, with a line for each, and says below it how far attempts are counted. The first
// columns are those of all spans, and buckets is there where a span has it.
func Write(w io.Writer, spans []service.SpanTotals, by service.Span, counted service.CountedTo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s (UTC)\tattempts\tallowed\tblocked\twould block\tsuccesses\tfailures\tbuckets\t\n", by)
	for _, s := range spans {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.BeginsAt.Format(layoutOf(by)), numbers(s.Totals), bucketsOf(s), state(s))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "counted to %s, rolled up to %s\n", counted.CountedTo.Format(time.RFC3339), counted.RolledUpTo.Format(time.RFC3339))
	return err
}

// WriteAll prints the totals of a bucket over all time.
func WriteAll(w io.Writer, t service.BucketTotals, key string) error {
	last := "never"
	if !t.LastAt.IsZero() {
		last = t.LastAt.Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(w, "zone %d, %s: %d attempts since %s, %d allowed, %d blocked, %d successes, %d failures\n  last seen  %s\n",
		t.Bucket.ZoneID, key, t.All.Attempts, t.CountedSince.Format(time.RFC3339), t.All.Allowed, t.All.Blocked, t.All.Successes, t.All.Failures, last)
	return err
}

func layoutOf(by service.Span) string {
	switch by {
	case service.SpanDay:
		return time.DateOnly
	case service.SpanMonth:
		return "2006-01"
	default:
		return "2006-01-02 15:04"
	}
}

func numbers(t service.Totals) string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d", t.Attempts, t.Allowed, t.Blocked, t.WouldBlock, t.Successes, t.Failures)
}

func bucketsOf(s service.SpanTotals) string {
	if s.Buckets == nil {
		return ""
	}
	return fmt.Sprint(*s.Buckets)
}

func state(s service.SpanTotals) string {
	if s.Final {
		return "final"
	}
	return ""
}
