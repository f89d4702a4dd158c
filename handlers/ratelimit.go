package handlers

import (
	"velocityd/api"
	"velocityd/service"
)

// setRateLimit sets RateLimit-Policy and RateLimit as package api makes them, and Retry-After if d is blocked.
func setRateLimit(x *exchange, d service.Decision) {
	if d.Blocked {
		x.set(fieldRetryAfter, decimal(service.WholeSeconds(d.RetryAfter())))
	}
	if policy, limit := api.RateLimit(d); policy != "" {
		x.set(fieldRateLimitPolicy, policy)
		x.set(fieldRateLimit, limit)
	}
}
