package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"velocityd/service"
)

func TestTxnOfEachKindIsShown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	body := `{"buckets":[` + bucketJSON(1, "é\"") + `,` + bucketJSON(2, "203.0.113.9") + `]}`
	allowed := r.post(t, "/v1/check", body).decision(t)
	blocked := r.post(t, "/v1/check", body).decision(t)
	for _, want := range []service.Txn{
		{ID: allowed.TxnID(), Bucket: bucketOf(1, "é\""), CreatedAt: allowed.CheckedAt, Counted: true, CheckID: allowed.TxnID()},
		{ID: blocked.TxnID(), Bucket: bucketOf(1, "é\""), CreatedAt: blocked.CheckedAt, Blocked: true, Reason: service.ReasonElsewhere, CheckID: blocked.TxnID()},
		{
			ID: blocked.Verdicts[1].TxnID, Bucket: bucketOf(2, "203.0.113.9"), CreatedAt: blocked.CheckedAt, Blocked: true, WouldBlock: true,
			Reason: service.ReasonFull, CheckID: blocked.TxnID(),
		},
	} {
		reply := r.get(t, fmt.Sprint("/v1/txns/", want.ID))
		want.Attempts, want.LastAt = 1, want.CreatedAt
		var got service.Txn
		if err := json.Unmarshal([]byte(reply.body), &got); err != nil || got != want || reply.status != http.StatusOK {
			t.Errorf("got %d %s, want %+v", reply.status, reply.body, want)
		}
		if caching := reply.header.Get("Cache-Control"); caching != "no-store" {
			t.Errorf("an answer with a key may be cached: %q", caching)
		}
	}
	r.get(t, "/v1/txns/99").refused(t, http.StatusNotFound, "not_found")
}
