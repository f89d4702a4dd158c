package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// degraded answers each check as a Circuit does: those of zones 2 and 3 are blocked, the latter because a bucket is
// full.
func degraded(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(checks))
	for i, check := range checks {
		d := service.Decision{Degraded: true}
		for _, b := range check.Buckets {
			v := service.Verdict{Bucket: b, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 5}
			if b.ZoneID > 1 {
				v.Blocked, v.WouldBlock, v.RetryAfter.Duration = true, true, time.Second
				d.Blocked, d.WouldBlock = true, true
			}
			if b.ZoneID == 3 {
				v.Reason = service.ReasonFull
			}
			d.Verdicts = append(d.Verdicts, v)
		}
		decisions[i] = d
	}
	return decisions, nil
}

func TestDegradedAnswerSaysSoAndNothingUnknown(t *testing.T) {
	t.Parallel()
	r := startWith(t, degraded)
	for zone, want := range map[int64]string{
		1: `{"blocked":false,"would_block":false,"degraded":true,"retry_after":0,"buckets":[{"zone_id":1,"bucket_key":"alice",` +
			`"blocked":false,"would_block":false,"rate":5,"window":60,"retry_after":0}]}`,
		2: `{"blocked":true,"would_block":true,"degraded":true,"retry_after":1,"buckets":[{"zone_id":2,"bucket_key":"alice",` +
			`"blocked":true,"would_block":true,"rate":5,"window":60,"retry_after":1}]}`,
	} {
		got := r.post(t, "/v1/check", bucketJSON(zone, "alice"))
		if got.status != http.StatusOK || got.body != want {
			t.Errorf("got %d %s\nwant %s", got.status, got.body, want)
		}
		if got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Policy") != "" ||
			(got.header.Get("Retry-After") != "") != (zone == 2) {
			t.Errorf("zone %d: its header is %v", zone, got.header)
		}
		if line := r.log.Last(t); line["degraded"] != true || line["blocked"] != (zone == 2) || line["txn_id"] != nil {
			t.Errorf("zone %d: logged %v", zone, line)
		}
	}
	got := r.post(t, "/v1/checks", `{"checks":[`+bucketJSON(1, "alice")+`,`+bucketJSON(2, "alice")+`]}`)
	if got.status != http.StatusOK || strings.Count(got.body, `"degraded":true`) != 2 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.log.Last(t); line["degraded_checks"] != 2.0 || line["blocked_checks"] != 1.0 {
		t.Errorf("logged %v", line)
	}
}

// TestLogTellsSettingBlocksFromBucketBlocks asks a zone that blocks, and one in which a bucket is full.
func TestLogTellsSettingBlocksFromBucketBlocks(t *testing.T) {
	t.Parallel()
	for zone, want := range map[int64]string{
		1: "allowed by on_failure", 2: "blocked by on_failure",
		3: "blocked, because a bucket is full",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaulty(nil)
			f.Handler = New(Options{Logger: f.logger(), Limiter: service.NewLimiter(storeFunc(degraded),
				service.LimiterOptions{Timeout: time.Minute})})
			f.ask(t, "/v1/check", bucketJSON(zone, "alice"))
			if lines := f.lines(t); len(lines) != 1 || !strings.HasPrefix(fmt.Sprint(lines[0]["error"]), want) {
				t.Errorf("zone %d: %v, want %q", zone, lines, want)
			}
			time.Sleep(2 * faultPause) // so that its timer ends
		})
	}
}
