package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"

	"velocityd/bench/history"
)

// pages returns requests for the pages of the console, which people wait for.
func pages() []question {
	page := func(id, title, path string) question {
		return question{id: id, title: "page " + title, isFew: true, request: func(history.Plan, *rand.Rand) (string, string, string) {
			return http.MethodGet, "/console/" + path, ""
		}}
	}
	user := fmt.Sprint(history.ZoneUser)
	return []question{
		page("page-now", "Now", ""), page("page-history", "History", "history"),
		page("page-blocked", "History, blocked alone", "history?blocked=true"), page("page-locked", "Locked", "locked"),
		page("page-attacks", "Attacks", "attacks"), page("page-zones", "Zones", "zones"), page("page-zone", "of a zone", "zones/"+user),
		page("page-overrides", "Overrides", "overrides"), page("page-audit", "Audit", "audit"), page("page-health", "Health", "health"),
		{
			id: "page-decision", title: "page of a decision", isFew: true,
			request: func(p history.Plan, random *rand.Rand) (string, string, string) {
				return http.MethodGet, fmt.Sprintf("/console/txns/%d", 1+random.IntN(p.Rows)), ""
			},
		},
		{
			id: "page-key", title: "page of a user, from the search", isFew: true,
			request: func(p history.Plan, random *rand.Rand) (string, string, string) {
				return http.MethodPost, "/console/search", url.Values{"text": {history.User(random.IntN(p.Users()))}}.Encode()
			},
		},
		{
			id: "page-noisy", title: "page of an address with a tenth of all rows, from the search", isFew: true,
			request: func(history.Plan, *rand.Rand) (string, string, string) {
				return http.MethodPost, "/console/search", url.Values{"text": {history.NoisyAddress}}.Encode()
			},
		},
	}
}
