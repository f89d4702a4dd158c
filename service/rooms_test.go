package service_test

import "maps"

// rule says what a room's production code may import.
type rule struct {
	ours   []string // rooms of this module, by any way
	theirs []string // modules that its own files name; "*" for any
	never  []string // packages of the standard library that are another room's trade
}

// Modules and packages that the rules name.
const (
	driver  = "github.com/go-sql-driver/mysql"
	sqlx    = "github.com/jmoiron/sqlx"
	migrate = "github.com/golang-migrate/migrate/v4"
	kongs   = "github.com/alecthomas/kong"
	echo    = "github.com/labstack/echo/v4"
	fields  = "github.com/dunglas/httpsfv"
	strict  = "github.com/go-json-experiment/json"
	yaml    = "go.yaml.in/yaml/v3"
	pp      = "github.com/pires/go-proxyproto"
	spell   = "github.com/agnivade/levenshtein"
	xxhash  = "github.com/cespare/xxhash/v2"
	mmdb    = "github.com/oschwald/maxminddb-golang/v2"
	sql     = "database/sql"
	http    = "net/http"
	ipx     = "go4.org/netipx"
	text    = "golang.org/x/text" // what Unicode says of case and of equal spellings
)

func rules() map[string]rule {
	all := map[string]rule{
		"service":          {theirs: []string{text}, never: []string{sql, http}},
		"service/access":   {ours: []string{"service"}},
		"service/queue":    {ours: []string{"service"}},
		"service/event":    {ours: []string{"service"}, never: []string{sql, http}},
		"service/webhook":  {ours: []string{"service", "service/event"}, never: []string{sql, http}},
		"service/rewind":   {ours: []string{"service"}, never: []string{sql, http}},
		"service/barred":   {ours: []string{"service"}, never: []string{sql, http}},
		"service/firewall": {ours: []string{"service", "service/barred"}, theirs: []string{ipx}, never: []string{sql, http}},
		"service/feed":     {ours: []string{"service", "service/event"}, never: []string{sql, http}},
		"service/explain":  {ours: []string{"service"}, never: []string{sql, http}},
		"service/backtest": {ours: []string{"service"}, never: []string{sql, http}},
		"service/lint":     {ours: []string{"service"}, never: []string{sql, http}},
		"service/proof":    {ours: []string{"service"}, never: []string{sql, http}},
		"service/memory": {
			ours:  []string{"service", "service/access", "service/barred", "service/event", "service/webhook", "service/explain"},
			never: []string{"testing", sql, http},
		},
		"service/servicetest": {
			ours: []string{
				"service", "service/memory", "service/access", "service/barred", "service/event", "service/webhook", "service/explain",
			},
		},
		"front":            {ours: []string{"service", "service/access"}, never: []string{sql, http}},
		"api":              {ours: []string{"service", "service/event", "service/webhook", "service/backtest", "service/explain", "service/access", "service/barred"}},
		"client":           {ours: []string{"api", "service", "service/event", "service/webhook", "service/backtest", "service/explain", "service/access", "service/barred", "service/firewall"}},
		"client/inside":    {},
		"migrations":       {ours: []string{"db/address", "db/engine"}, theirs: []string{driver, migrate}},
		"migrations/roles": {ours: []string{"migrations", "db/address", "db/engine"}, theirs: []string{driver}},
		"daemon": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/proof", "service/barred", "service/firewall", "service/backtest", "service/explain", "service/lint",
				"service/rewind", "service/feed", "service/queue", "front",
				"api", "db", "db/session", "db/records", "db/history", "db/prover", "db/jobs", "db/evidence", "db/outbox", "db/retention", "db/barred", "db/subject", "db/totals",
				"db/zonerow", "db/address", "db/engine", "doctor", "migrations", "migrations/roles", "handlers",
				"handlers/gate", "handlers/wire", "geoip", "envoy", "spelling", "telemetry", "trusted", "client", "client/inside", "wforce", "console", "console/figure", "console/settings", "console/words",
			},
			never: []string{sql},
		},
		"courier": {
			ours: []string{
				"service", "service/access", "service/barred", "service/backtest", "service/event", "service/explain", "service/webhook", "api",
			},
			theirs: []string{"github.com/standard-webhooks/standard-webhooks/libraries"}, never: []string{sql},
		},
		"doctor": {ours: []string{
			"service", "service/event", "service/webhook", "service/access", "service/proof", "service/barred", "service/backtest", "service/explain", "service/lint", "db", "db/session", "db/records",
			"db/history", "db/prover", "db/jobs", "db/evidence", "db/outbox", "db/retention", "db/barred", "db/subject", "db/totals", "db/zonerow", "db/address", "db/engine",
			"migrations", "migrations/roles", "trusted",
		}, never: []string{sql, http}},
		"handlers": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/barred", "service/firewall", "service/backtest",
				"service/explain", "service/feed", "front", "api", "handlers/gate", "handlers/wire", "spelling",
			},
			theirs: []string{echo, fields, strict}, never: []string{sql},
		},
		"handlers/gate": {ours: []string{"service", "spelling"}, theirs: []string{strict, yaml}, never: []string{sql}},
		"proxy":         {ours: []string{"service", "service/access", "front", "handlers/gate", "spelling"}, theirs: []string{strict}, never: []string{sql}},
		"handlers/wire": {
			ours: []string{"service", "service/event", "service/webhook", "service/access", "service/barred", "service/backtest", "service/explain", "front", "api"}, theirs: []string{strict, pp}, never: []string{sql},
		},
		"handlers/handlerstest": {ours: []string{"service"}},
		"telemetry":             {ours: []string{"service", "service/queue"}, theirs: telemetryModules()},
		"spelling":              {theirs: []string{spell}, never: []string{"net", sql, http}},
		"geoip":                 {ours: []string{"service", "trusted"}, theirs: []string{mmdb}, never: []string{sql, http}},
		"geoip/geoiptest":       {theirs: []string{"github.com/maxmind/mmdbwriter"}},
		"trusted":               {never: []string{"net", sql, http}},
	}
	maps.Copy(all, databaseRules())
	maps.Copy(all, doorRules())
	maps.Copy(all, programRules())
	maps.Copy(all, consoleRules())
	return all
}

// consoleRules are those of the console and of the rooms below it.
func consoleRules() map[string]rule {
	return map[string]rule{
		"console/figure": {ours: []string{"service", "service/backtest", "service/explain"}, never: []string{sql, http}},
		"console/words":  {ours: []string{"service"}, never: []string{sql, http}},
		"console/settings": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/barred", "service/backtest", "service/explain", "api", "console/words",
			},
			never: []string{sql},
		},
		"console": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/barred", "service/firewall", "service/backtest", "service/explain", "service/lint", "service/rewind",
				"console/figure", "console/settings", "console/words", "front", "api", "client", "client/inside",
			},
			theirs: []string{text}, never: []string{sql},
		},
	}
}

// programRules are those of the programs, and of what belongs to none of the rooms.
func programRules() map[string]rule {
	return map[string]rule{
		"bench":         {ours: []string{"bench/history", "bench/round", "db/localdb"}, theirs: []string{driver}},
		"bench/history": {never: []string{"net", sql, http}},
		"bench/load": {
			ours: []string{
				"bench/round", "client", "api", "service", "service/access", "service/backtest", "service/barred", "service/event",
				"service/explain", "service/webhook",
			},
			theirs: []string{driver, "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/envoy"},
		},
		"bench/round": {},
		"db/dbtest/vitess/cluster": {
			ours: []string{"db/address", "db/dbtest/vitess", "db/engine", "db/localdb", "migrations"},
		},
		"cmd/velocityd": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/proof", "service/barred", "service/firewall", "service/backtest", "service/explain", "service/lint", "service/rewind",
				"service/feed", "service/queue", "front", "api", "client", "client/inside", "wforce", "console", "console/figure", "console/settings", "console/words", "daemon", "doctor", "db",
				"db/session", "db/records", "db/history", "db/prover", "db/jobs", "db/evidence", "db/outbox", "db/retention", "db/barred", "db/subject",
				"db/totals", "db/zonerow", "db/address", "db/engine", "db/localdb", "db/private", "db/private/demo", "service/memory",
				"courier", "proxy", "migrations", "migrations/roles", "handlers", "handlers/gate", "handlers/wire", "geoip", "envoy", "spelling", "telemetry", "trusted",
				"cmd/velocityd/ask", "cmd/velocityd/shell", "cmd/velocityd/pam", "cmd/velocityd/ratelimit",
				"cmd/velocityd/crowdsec", "cmd/velocityd/event", "cmd/velocityd/backtest", "cmd/velocityd/replay", "cmd/velocityd/report", "cmd/velocityd/totals", "cmd/velocityd/txn",
			},
			theirs: []string{"*"},
		},
		"cmd/velocityd/ask": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/proof", "service/barred", "service/firewall", "service/backtest", "service/explain", "service/lint",
				"service/rewind", "service/feed", "service/queue", "front", "api", "client", "client/inside", "wforce", "console", "console/figure", "console/settings", "console/words", "daemon", "doctor", "db",
				"db/session", "db/records", "db/history", "db/prover", "db/jobs", "db/evidence", "db/outbox", "db/retention", "db/barred", "db/subject",
				"db/totals", "db/zonerow", "db/address", "db/engine", "db/localdb", "db/private", "db/private/demo", "service/memory",
				"courier", "migrations", "migrations/roles", "handlers", "handlers/gate", "handlers/wire", "geoip", "envoy", "spelling", "telemetry", "trusted",
				"cmd/velocityd/shell", "cmd/velocityd/event", "cmd/velocityd/txn",
			},
			theirs: []string{kongs}, never: []string{sql, http},
		},
		"cmd/velocityd/shell": {
			ours: []string{"service"}, theirs: []string{kongs, "github.com/mattn/go-isatty", "github.com/schollz/progressbar/v3"}, never: []string{sql, http},
		},
		"cmd/velocityd/event":    {ours: []string{"service", "service/access", "service/backtest", "service/barred", "service/event", "service/webhook", "service/explain", "service/feed", "api"}, never: []string{sql}},
		"cmd/velocityd/crowdsec": {ours: []string{"service"}, never: []string{sql}},
		"cmd/velocityd/pam":      {ours: []string{"service", "trusted"}, never: []string{sql, http}},
		"cmd/velocityd/ratelimit": {
			ours: []string{"service", "spelling", "handlers/gate"}, theirs: []string{yaml}, never: []string{sql},
		},
		"cmd/velocityd/totals": {ours: []string{"service"}},
		"cmd/velocityd/txn": {
			ours: []string{"service", "service/event", "service/webhook", "service/access", "service/barred", "service/backtest", "service/explain", "service/feed", "api"}, theirs: []string{"github.com/schollz/progressbar/v3"},
			never: []string{sql},
		},
		"cmd/velocityd/replay":   {ours: []string{"service"}, never: []string{sql, http}},
		"cmd/velocityd/backtest": {ours: []string{"service", "service/backtest"}, never: []string{sql, http}},
		"cmd/velocityd/report":   {ours: []string{"service"}, never: []string{sql, http}},
		"examples/go":            {ours: []string{"service", "service/event", "service/webhook", "service/access", "service/barred", "service/firewall", "service/backtest", "service/explain", "api", "client"}},
		"docs":                   {}, // the test of the pages
		"deploy":                 {}, // the tests of what operators are given
	}
}

// doorRules are those of rooms that speak other protocols, or stand in other people's programs.
func doorRules() map[string]rule {
	return map[string]rule{
		"client/fake": {ours: []string{
			"service", "service/access", "service/barred", "service/event", "service/webhook", "service/explain", "service/memory",
		}},
		"client/echolimit": {ours: []string{
			"service", "service/event", "service/webhook", "service/access", "service/barred", "service/firewall", "service/backtest", "service/explain", "api", "client",
		}},
		"wforce": {ours: []string{
			"service", "service/event", "service/webhook", "service/access", "service/barred", "service/firewall", "service/backtest", "service/explain", "front",
			"api", "client", "client/inside",
		}, never: []string{sql}},
		"envoy": {
			ours:   []string{"service", "service/event", "service/webhook", "service/access", "service/barred", "service/backtest", "service/explain", "front", "api", "handlers/gate", "spelling"},
			theirs: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/envoyproxy/go-control-plane/envoy"}, never: []string{sql},
		},
	}
}

// databaseRules are those of db and of the rooms below it.
func databaseRules() map[string]rule {
	return map[string]rule{
		"db": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/proof", "service/barred", "service/backtest", "service/explain", "db/session", "db/records",
				"db/history", "db/prover", "db/jobs", "db/evidence", "db/outbox", "db/retention", "db/barred", "db/subject", "db/totals", "db/zonerow",
				"db/address", "db/engine", "trusted",
			},
			theirs: []string{driver, sqlx}, never: []string{http},
		},
		"db/history": {
			ours: []string{"service", "service/backtest", "service/explain", "db/session", "db/address", "db/engine", "trusted"}, theirs: []string{sqlx}, never: []string{http},
		},
		"db/outbox": {
			ours: []string{"service", "service/event", "service/webhook", "db/retention", "db/session", "db/address", "db/engine", "trusted"}, theirs: []string{sqlx}, never: []string{http},
		},
		"db/jobs": {
			ours:   []string{"service", "service/backtest", "service/event", "db/retention", "db/session", "db/address", "db/engine", "trusted"},
			theirs: []string{sqlx}, never: []string{http},
		},
		"db/prover": {ours: []string{"service", "service/proof", "db/zonerow"}, never: []string{http}},
		"db/totals": {
			ours:   []string{"service", "service/event", "db/retention", "db/session", "db/zonerow", "db/address", "db/engine", "trusted"},
			theirs: []string{sqlx}, never: []string{http},
		},
		"db/barred": {
			ours:   []string{"service", "service/barred", "db/session", "db/address", "db/engine", "trusted"},
			theirs: []string{sqlx}, never: []string{http},
		},
		"db/subject": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/backtest", "service/explain", "db/session", "db/records", "db/retention", "db/totals", "db/zonerow", "db/address", "db/engine", "trusted",
			},
			theirs: []string{sqlx}, never: []string{http},
		},
		"db/retention": {
			ours:   []string{"service", "service/event", "db/session", "db/address", "db/engine", "trusted"},
			theirs: []string{sqlx}, never: []string{http},
		},
		"db/records": {
			ours:   []string{"service", "service/event", "service/webhook", "service/access", "service/backtest", "service/explain", "db/session", "db/zonerow", "db/address", "db/engine", "trusted"},
			theirs: []string{driver, sqlx}, never: []string{http},
		},
		"db/evidence": {
			ours: []string{
				"service", "service/event", "service/webhook", "service/access", "service/backtest", "service/explain", "db/history", "db/jobs", "db/records", "db/session", "db/zonerow",
				"db/address", "db/engine", "trusted",
			},
			never: []string{sql, http},
		},
		"db/session": {
			ours: []string{"service", "db/address", "db/engine", "trusted"}, theirs: []string{driver, sqlx, xxhash},
			never: []string{http},
		},
		"db/zonerow": {ours: []string{"service"}, never: []string{http}},
		"db/address": {theirs: []string{driver}},
		"db/engine":  {never: []string{sql, http}},
		"db/localdb": {never: []string{sql}},
		"db/private": {ours: []string{
			"migrations", "migrations/roles", "db/address", "db/engine", "trusted", "db/private/demo", "service",
			"service/access", "service/event", "service/webhook", "service/barred", "service/explain", "service/memory",
		}, theirs: []string{driver}},
		"db/private/demo": {ours: []string{"service", "service/access", "service/event", "service/webhook", "service/barred", "service/explain", "service/memory"}},
		"db/dbtest": {
			ours:   []string{"service", "service/proof", "db/prover", "service/event", "db/zonerow", "migrations", "migrations/roles", "db/address", "db/engine", "db/localdb"},
			theirs: []string{driver},
		},
		"db/dbtest/vitess": {ours: []string{"db/localdb"}, never: []string{sql}},
	}
}

// telemetryModules are those of Prometheus and of OpenTelemetry, which has one for each part.
func telemetryModules() []string {
	return []string{
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model",
		"github.com/go-logr/logr",
		"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
		"go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/sdk",
		"go.opentelemetry.io/otel/trace",
	}
}
