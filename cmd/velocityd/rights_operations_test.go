package main

import "strings"

// operation is one of api/openapi.yaml, or a way through one, which is named behind it.
type operation struct {
	name   string
	target string // with the placeholders of fill; empty: the name's
	body   string
	header []string
	status int // 0: 200
	before string
}

// operations are in an order in which each finds the rows that it names.
func operations() []operation { //nolint:funlen // one table
	const attempt = "X-Attempt"
	return []operation{
		{name: "GET /"},
		{name: "GET /livez"},
		{name: "GET /readyz"},
		{name: "GET /openapi.yaml"},
		{name: "GET /metrics"},
		{name: "GET /healthcheck"},
		{name: "POST /v1/check", body: `{"zone_id":1,"bucket_key":"u%n"}`},
		{name: "POST /v1/check with an id", target: "/v1/check", body: `{"zone_id":1,"bucket_key":"alice","attempt_id":"a"}`},
		{
			name: "POST /v1/check with a new id", target: "/v1/check",
			body: `{"zone_id":1,"bucket_key":"i%n","attempt_id":"i%n"}`,
		},
		{
			name: "POST /v1/check of several with a secret", target: "/v1/check",
			body: `{"buckets":[{"zone_id":1,"bucket_key":"s%n"},{"zone_id":2,"bucket_key":"s%n"}],"secret_hash":"0123456789abcdef"}`,
		},
		{
			name: "POST /v1/check by a network", target: "/v1/check",
			body: `{"buckets":[{"zone_id":3,"bucket_key":"203.0.113.9"},{"zone_id":3,"bucket_key":"198.51.100.9"}]}`,
		},
		{
			name: "POST /v1/checks",
			body: `{"checks":[{"zone_id":1,"bucket_key":"b%n"},{"zone_id":1,"bucket_key":"b%n"},{"zone_id":1,"bucket_key":"b%n"}]}`,
		},
		{name: "GET /v1/caller"},
		{name: "GET /v1/retention"},
		{name: "GET /v1/zones"},
		{name: "POST /v1/txns/{id}/outcome", target: "/v1/txns/1/outcome", body: `{"outcome":"failure"}`},
		{name: "GET /v1/gate", target: "/v1/gate?zone=1&key=g%n", status: 204},
		{name: "GET /gate/{name}", target: "/gate/login", header: []string{"X-User", "carol", attempt, "g"}, status: 204},
		{
			name: "GET /gate/{name}/outcome", target: "/gate/login/outcome?outcome=failure", header: []string{attempt, "g"},
			status: 204,
		},
		{
			name: "GET /gate/{name}/{path}", target: "/gate/login/x", header: []string{"X-User", "carol", attempt, "g"},
			status: 204,
		},
		{name: "POST /json", body: `{"domain":"d","descriptors":[{"entries":[{"key":"zone_1","value":"r%n"}]}]}`},
		{name: "POST /v1/attempts/{id}/outcome", target: "/v1/attempts/a/outcome", body: `{"outcome":"failure"}`},
		{name: "POST /v1/outcomes", body: `{"reports":[{"txn_id":"2","outcome":"failure"}]}`},
		{name: "GET /v1/zones/{id}", target: "/v1/zones/1"},
		{name: "PUT /v1/zones/{id}", target: "/v1/zones/%n", body: `{"rate":5,"window":60}`, status: 201},
		{name: "PUT /v1/zones/{id} of one that is there", target: "/v1/zones/2", body: `{"rate":%n,"window":60}`},
		{
			name: "DELETE /v1/zones/{id}", target: "/v1/zones/90", status: 204,
			before: "INSERT INTO zone_master (id, rate, `window`) VALUES (90, 5, 60)",
		},
		{name: "GET /v1/zones/{id}/totals", target: "/v1/zones/1/totals"},
		{name: "GET /v1/zones/{id}/report", target: "/v1/zones/1/report"},
		{name: "GET /v1/zones/{id}/buckets/{key}", target: "/v1/zones/1/buckets/alice"},
		{name: "GET /v1/zones/{id}/buckets/{key}/totals", target: "/v1/zones/1/buckets/alice/totals"},
		{
			name: "POST /v1/zones/{id}/buckets/{key}/release", target: "/v1/zones/1/buckets/alice/release",
			body: `{"reason":"x"}`,
		},
		{name: "GET /v1/zones/{id}/locked", target: "/v1/zones/1/locked"},
		{name: "GET /v1/zones/{id}/denied.txt", target: "/v1/zones/3/denied.txt"},
		{name: "POST /v1/zones/{id}/release", target: "/v1/zones/1/release", body: `{"bucket_keys":["alice"],"reason":"x"}`},
		{name: "POST /v1/zones/{id}/backtest", target: "/v1/zones/1/backtest", body: `{"rates":[3]}`, status: 202},
		{name: "GET /v1/zones/{id}/backtest/{job}", target: "/v1/zones/1/backtest/%j"},
		{name: "DELETE /v1/zones/{id}/backtest/{job}", target: "/v1/zones/1/backtest/%j"},
		{name: "GET /v1/zones/{id}/overrides", target: "/v1/zones/1/overrides"},
		{
			name: "POST /v1/zones/{id}/overrides", target: "/v1/zones/1/overrides", status: 201,
			body: `{"bucket_key":"o%n","action":"allow","reason":"x"}`,
		},
		{name: "GET /v1/zones/{id}/overrides/{override_id}", target: "/v1/zones/1/overrides/9"},
		{
			name: "PUT /v1/zones/{id}/overrides/{override_id}", target: "/v1/zones/1/overrides/9",
			body: `{"bucket_key":"mallory","action":"deny","reason":"%n"}`,
		},
		{
			name: "DELETE /v1/zones/{id}/overrides/{override_id}", target: "/v1/zones/1/overrides/90", status: 204,
			before: "INSERT INTO zone_override (id, zone_id, bucket_key, action) VALUES (90, 1, 'gone', 'deny')",
		},
		{name: "GET /v1/txns"},
		{name: "GET /v1/checks"},
		{name: "GET /v1/txns as a file", target: "/v1/txns?zone=1", header: []string{"Accept", "text/csv"}},
		{name: "GET /v1/txns/follow"},
		{name: "GET /v1/events"},
		{name: "GET /v1/events/follow"},
		{name: "GET /v1/events/schema"},
		{name: "GET /v1/webhooks"},
		{
			name: "POST /v1/webhooks", body: `{"url":"https://hooks.example.com/%n"}`, status: 201,
			before: "DELETE FROM webhook WHERE id > 1",
		},
		{
			name: "DELETE /v1/webhooks/{id}", target: "/v1/webhooks/90", status: 204,
			before: "INSERT INTO webhook (id, url, secret, created_by, created_at, position) " +
				"VALUES (90, 'https://hooks.example.com/', 'whsec_x', 'ann', NOW(), 0)",
		},
		{name: "GET /v1/webhooks/{id}/deliveries", target: "/v1/webhooks/1/deliveries"},
		{
			name: "POST /v1/webhooks/{id}/resend", target: "/v1/webhooks/1/resend", body: `{}`,
			before: "REPLACE INTO webhook_delivery (webhook_id, event_id, tries, next_at, error) VALUES (1, 1, 9, NULL, 'x')",
		},
		{name: "GET /v1/diagnosis"},
		{name: "GET /v1/audit"},
		{name: "GET /v1/tokens"},
		{
			name: "DELETE /v1/tokens/{id}", target: "/v1/tokens/%n", status: 204,
			before: "INSERT INTO access_token (id, kind, name, digest, shown, scopes, created_by, created_at) " +
				"VALUES (%n, 'token', 'x', UNHEX(SHA2('%n', 256)), 'vel_x', 'check', 'ann', NOW())",
		},
		{name: "GET /v1/txns/{id}", target: "/v1/txns/1"},
		{name: "GET /v1/txns/{id}/explanation", target: "/v1/txns/1/explanation"},
		{name: "GET /v1/attempts/{id}", target: "/v1/attempts/a"},
	}
}

// Operations that are none of api/openapi.yaml.
const (
	background = "background tasks"
	first      = "background tasks of a new database"
	examined   = "velocityd doctor"
)

// needs says by which operation the lack of each right of the service's account is met, where it edits zones.
func needs() map[string]string {
	const several, lockout = "POST /v1/check of several with a secret", "POST /v1/checks"
	all := map[string]string{
		"SELECT schema_migrations": examined, "INSERT velocity_identity": examined, "SELECT retention_policy": examined,
		"SELECT zone_override_prefix_length": "POST /v1/check by a network", "INSERT totals_progress": first,
		"UPDATE access_token (last_used_at)": background, "UPDATE access_token (revoked_at)": "DELETE /v1/tokens/{id}",
		"UPDATE access_token (revoked_by)": "DELETE /v1/tokens/{id}",
		"UPDATE webhook (resent_at)":       "POST /v1/webhooks/{id}/resend",
	}
	for operation, rights := range map[string]string{
		several: "INSERT zone_txn, SELECT zone_txn, SELECT zone_bucket_lock, INSERT zone_bucket_lock, UPDATE " +
			"zone_bucket_lock, SELECT zone_override, SELECT zone_master",
		"POST /v1/check with a new id": "SELECT zone_attempt, INSERT zone_attempt",
		lockout:                        "INSERT zone_event, SELECT zone_lockout, INSERT zone_lockout, UPDATE zone_lockout",
		background: "SELECT velocity_identity, SELECT zone_txn_mark, INSERT zone_txn_mark, DELETE zone_txn_mark, INSERT " +
			"webhook_delivery, DELETE webhook_delivery, UPDATE totals_progress, INSERT retention_task, UPDATE " +
			"retention_task, INSERT zone_hour, UPDATE zone_hour, INSERT zone_bucket_total, UPDATE zone_bucket_total, DELETE " +
			"zone_bucket_total, INSERT zone_totals_since, UPDATE zone_totals_since, DELETE zone_totals_since, DELETE " +
			"zone_backtest, UPDATE webhook (error), UPDATE webhook (failed_at), UPDATE webhook (position), UPDATE webhook " +
			"(succeeded_at)",
		"PUT /v1/zones/{id}":                            "INSERT zone_master",
		"PUT /v1/zones/{id} of one that is there":       "UPDATE zone_master",
		"DELETE /v1/zones/{id}":                         "DELETE zone_master",
		"POST /v1/zones/{id}/overrides":                 "INSERT zone_override",
		"PUT /v1/zones/{id}/overrides/{override_id}":    "UPDATE zone_override",
		"DELETE /v1/zones/{id}/overrides/{override_id}": "DELETE zone_override",
		"GET /v1/events":                                "SELECT zone_event",
		"GET /v1/tokens":                                "SELECT access_token",
		"GET /v1/webhooks":                              "SELECT webhook, SELECT webhook_delivery",
		"POST /v1/webhooks":                             "INSERT webhook",
		"DELETE /v1/webhooks/{id}":                      "DELETE webhook",
		"POST /v1/webhooks/{id}/resend":                 "UPDATE webhook_delivery",
		"GET /v1/zones/{id}/totals":                     "SELECT totals_progress, SELECT zone_hour",
		"GET /v1/zones/{id}/buckets/{key}/totals":       "SELECT zone_bucket_total, SELECT zone_totals_since",
		"GET /v1/retention":                             "SELECT retention_task",
		"POST /v1/zones/{id}/backtest":                  "SELECT zone_backtest, INSERT zone_backtest",
		"DELETE /v1/zones/{id}/backtest/{job}":          "UPDATE zone_backtest",
		"GET /v1/audit":                                 "SELECT zone_audit",
	} {
		for right := range strings.SplitSeq(rights, ", ") {
			all[right] = operation
		}
	}
	return all
}
