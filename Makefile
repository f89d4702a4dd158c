# The project's commands. `make` alone lists them: the list is made from the comments behind `##`.
# The two that a newcomer needs: `make run` and `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The cache of tools/engines.sh and tools/golangci-lint.sh, for all checkouts of a user.
CACHE = $(or $(VELOCITY_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/velocityd)

ARGS ?=
PKG ?= ./...
RACE ?= -race
TESTFLAGS ?=
export NAME ?=
ROUNDS ?=
SEED ?=
DURATION ?= 1h
PORT ?= 15300
TAG ?=
REPLICAS ?= 0

.PHONY: help
help: ## list the commands
	@awk -F '##' '/^##/ { print "\n" substr($$2, 2) } \
		/^[a-z][a-z-]*:.*##/ { name = $$1; sub(/:.*/, "", name); printf "  make %-20s %s\n", name, $$2 }' $(MAKEFILE_LIST)

## Run

.PHONY: run
run: engine build ## serve, with a private database that is installed if need be (ARGS='--listen 127.0.0.1:9090')
	@exec bin/velocityd dev $(ARGS)

.PHONY: engine
engine: toolchain
	@tools/engines.sh any

# Go stamps the version, from git: where git is missing or refuses this folder, the binary does without one.
.PHONY: build
build: toolchain ## build bin/velocityd, one static binary
	@stamp=false; if git describe --always >/dev/null 2>&1; then stamp=true; fi; \
	CGO_ENABLED=0 go build -trimpath -buildvcs=$$stamp -o bin/velocityd ./cmd/velocityd

## Prove

# The packages whose tests start no database engine.
QUICK = ./api ./client ./internal/... ./service/... ./handlers/... ./telemetry ./deploy ./bench/history ./bench/load \
	./bench/workload ./cmd/velocityd/{doctor,replay,server,settings,token,zone}

.PHONY: check
check: toolchain ## before each commit, in a minute once built: format, the tests that need no engine, lint with vet
	@files=$$(gofmt -l .); if [[ $$files ]]; then printf 'check: make fmt formats these:\n%s\n' "$$files" >&2; exit 1; fi
	@go test -vet=off $(QUICK)
	@go test -vet=off -run '^TestPages' ./docs
	@tools/golangci-lint.sh run ./...

# Where goroutines share memory: these packages are tested with the race detector, which takes two to three times as long.
RACED = velocityd/(client|cmd/velocityd/delivery|db|doors/(envoy|proxy|wforce)|handlers|service/(access|feed|queue)|telemetry)

# -parallel: tests wait for engines more than they compute, and the private servers must not grow with the machine's cores.
# bin/engines starts each engine once, for all packages. Those that cannot be had, and a promtool, skip their tests, without
# a word from go test; with CI=true the tests fail.
.PHONY: test
test: toolchain ## run all tests on MySQL and two MariaDBs, or on VELOCITY_TEST_DSN (PKG=./db TESTFLAGS='-run Zone -v' RACE=)
	@if [[ '$(RACE)' ]]; then tools/install.sh compiler; fi; \
	tools/promtool.sh >/dev/null || true; \
	note= lend=; if [[ -z $${VELOCITY_TEST_DSN:-} ]]; then \
		tools/engines.sh mysql mariadb-10.11 mariadb-11.8 || note='test: an engine is missing, see above: its tests were NOT run'; \
		if [[ '$(PKG)' == ./... ]]; then go build -o bin/engines ./tools/enginetest/engines; lend=bin/engines; fi; fi; \
	status=0; $$lend $(MAKE) suite || status=$$?; \
	if [[ $$note ]]; then echo "$$note" >&2; fi; exit $$status

# Vet is a part of `make lint`. Packages with the race detector run beside the others: db takes as long as all of those.
GO_TEST = go test -vet=off -timeout 60m -parallel 4
.PHONY: suite
suite:
	@status=0; if [[ '$(RACE)' ]]; then export CGO_ENABLED=1; fi; \
	if [[ '$(PKG)' != ./... ]]; then $(GO_TEST) $(RACE) $(PKG) $(TESTFLAGS); exit; fi; \
	$(GO_TEST) $(RACE) $$(go list ./... | grep -E '^$(RACED)(/|$$)') $(TESTFLAGS) & raced=$$!; \
	trap "kill $$raced 2>/dev/null || true" EXIT INT TERM; \
	$(GO_TEST) $$(go list ./... | grep -vE '^$(RACED)(/|$$)') $(TESTFLAGS) || status=$$?; \
	wait $$raced || status=$$?; \
	exit $$status

.PHONY: test-all
test-all: export VELOCITY_TEST_ALL = 1
test-all: test ## run those of `make test` on every engine, and what takes too long for each change; for a night or a release
	@$(MAKE) faults ARGS='-minutes 2'

# Each round's seed is printed, and SEED= with ROUNDS=1 repeats it. A fault whose means are missing says NOT RUN.
.PHONY: faults
faults: toolchain ## kill, stop, cut, fill and upgrade engine and instances for 20 minutes, and judge each promise (ROUNDS= SEED= ARGS='-only linear')
	@tools/engines.sh mysql mariadb-11.8 || true
	@tools/install.sh faketime || true
	@go build -o bin/faults ./tools/faults
	@exec bin/faults $(if $(ROUNDS),-rounds $(ROUNDS) -minutes 0) $(if $(SEED),-seed $(SEED)) $(ARGS)

# The chart and its numbers are in bin, or where ARGS='-chart docs/soak.svg' says.
.PHONY: soak
soak: toolchain ## run two instances at a steady pace, and want all to be at the end as at the beginning (DURATION=1h ARGS='-engine mariadb-11.8')
	@tools/engines.sh mysql mariadb-11.8
	@go build -o bin/soak ./tools/soak
	@exec bin/soak -duration $(DURATION) $(ARGS)

# The image and the chart are made by separate modules, whose first build takes minutes. Containers are entered by chroot.
TOOL_GO = env -u GOROOT GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 go
.PHONY: test-containers
test-containers: toolchain ## run image, compose file and Helm chart on real engines, without a container engine (needs root)
	@if [[ -z $${VELOCITY_TEST_DSN:-} ]]; then tools/engines.sh mysql mariadb-10.11 mariadb-11.8; fi
	@for part in image chart; do (cd tools/$$part && $(TOOL_GO) test ./...); done
	@rm -rf bin/containers; CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/containers/velocityd ./cmd/velocityd
	@cd tools/chart && $(TOOL_GO) build -trimpath -buildvcs=false -o ../../bin/containers/chart .
	@tools/module.sh image -version 0.0.0-test -out bin/containers bin/containers/velocityd >/dev/null
	@sudo=; if ((EUID)); then sudo='sudo -E'; fi; \
	go test -tags packages -exec "$$sudo" -count=1 -timeout 20m ./deploy/containers $(TESTFLAGS)

# Tests with the build tag doors. The engines are those of `make test`.
.PHONY: test-doors
test-doors: toolchain ## run velocityd behind real gateways, Dovecot and sshd (as root), and before Kratos; fetches or builds them once
	@tools/engines.sh mysql mariadb-10.11 mariadb-11.8
	@VELOCITY_DOORS=$$(tools/doors.sh) go test -tags doors -count=1 -timeout 15m ./doors $(TESTFLAGS)

# The pages of the console in a real browser, on a real service; the pictures are in console/e2e/shots.
.PHONY: test-console
test-console: engine build ## look at every page of the console with Chromium, light and dark, wide and narrow; installs it if need be
	@browser=$$(tools/browser.sh); cd console/e2e; npm ci --ignore-scripts --no-audit --no-fund --silent; \
	../../tools/typescript/tsc.sh --noEmit --allowJs --checkJs --strict --target es2023 --lib es2023,dom,dom.iterable ../static/console.js; \
	CHROMIUM_PATH=$$browser npm test --silent

# The questions stand in tools/golden/script.txt. What the changelog names is written anew by ARGS=-write.
.PHONY: golden
golden: build ## hold every operation, command and public procedure against the answers that were written down (ARGS=-write)
	@tools/engines.sh mysql mariadb-11.8
	@for engine in mysql mariadb-11.8; do go run ./tools/golden -engine $$engine $(ARGS); done

# The faults stand in tools/mutants/mutants.txt. The tests that may see them are those of `make test`, without the race detector.
.PHONY: mutants
mutants: toolchain ## make small faults in the code that decides, one by one, and want a test to fail each time (ARGS='-quick lockout')
	@tools/engines.sh mysql mariadb-10.11 mariadb-11.8
	@go build -o bin/engines ./tools/enginetest/engines
	@bin/engines go run ./tools/mutants $(ARGS)

.PHONY: lint
lint: toolchain ## hold the code against .golangci.yml (the first time builds the linter, for minutes)
	@go vet -tags cluster,doors,packages ./...
	@tools/golangci-lint.sh run ./...

## Measure

.PHONY: bench
bench: toolchain ## hold the service against other limiters and write bench/report.md, in half an hour (ARGS='-beside ../another-checkout')
	@tools/engines.sh mysql mariadb
	@go build -o bin/bench ./bench
	@exec bin/bench $(ARGS)

.PHONY: bench-history
bench-history: toolchain ## fill long histories, and measure queries, back-tests, retention and audits (ARGS='-fill mysql:10000000')
	@tools/engines.sh mysql mariadb
	@go build -o bin/bench ./bench
	@exec bin/bench history $(ARGS)

.PHONY: bench-proof
bench-proof: toolchain ## fill long histories, and measure the audit of them alone (ARGS='-fill mysql:20000000')
	@$(MAKE) bench-history ARGS='-only audit $(ARGS)'

.PHONY: bench-smoke
bench-smoke: toolchain ## a few minutes of the same, against the textbook way in SQL alone; prints a report, writes nothing
	@tools/engines.sh mysql mariadb
	@go build -o bin/bench ./bench
	@exec bin/bench -smoke $(ARGS)

## Change

.PHONY: fmt
fmt: toolchain ## format all Go code
	@tools/golangci-lint.sh fmt ./...

.PHONY: migrate-new
migrate-new: ## begin a change of the tables: NAME=what_it_does makes its two files, with the next number
	@tools/migrate-new.sh "$$NAME"

.PHONY: generate
generate: toolchain ## after a change of service.Settings: write what is made of it, in SQL, schemas and docs, and the step that installs it
	@go run ./tools/settings $(ARGS)
	@tools/migrate-routines.sh

.PHONY: migrate-routines
migrate-routines: ## after a change in migrations/procedures, triggers, views or retired.txt: write the step that installs it
	@tools/migrate-routines.sh

.PHONY: clean
clean: ## remove what was built here, and the linter; says what it leaves
	@rm -rf bin dist/tree '$(CACHE)/tools' '$(CACHE)/lint'
	@find . -name .git -prune -o -type f \( -name '*.test' -o -name '*.prof' \) -exec rm {} +
	@echo 'removed: bin, dist/tree, *.test, *.prof, $(CACHE)/tools, $(CACHE)/lint'
	@echo 'left:    database engines, histories, gateways and the Debian of make test-packages in $(CACHE) (rm -r removes them; the tests'
	@echo '         fetch them again), releases in dist,'
	@echo '         packages that were installed, the data of `velocityd dev`, Go'"'"'s own caches (go clean -cache)'

## Release

.PHONY: package
package: toolchain ## make the archives, debs, rpms, lists of modules and checksums of this tree in dist/tree
	@rm -rf dist/tree
	@tools/package/package.sh dist/tree

.PHONY: release
release: toolchain ## make all files of a version from its tag, twice, compared, in dist/TAG (TAG=v0.1.0)
	@tools/package/release.sh '$(TAG)' 'dist/$(TAG)'

.PHONY: migrate-release
migrate-release: ## before a version is tagged: hold its steps, which never change from then on, and keep its routines for tests of upgrades
	@tools/migrate-release.sh

# They boot a small Debian in namespaces, so they need root. Its layer is in memory.
.PHONY: test-packages
test-packages: toolchain test-containers ## release this tree; install, upgrade and remove it on a small Debian with systemd (needs root)
	@VELOCITY_DEBIAN=$$(tools/debian-root.sh) && export VELOCITY_DEBIAN && \
	sudo=; if ((EUID)); then sudo='sudo -E env PATH=$(PATH)'; fi; \
	go test -tags packages -exec "$$sudo" -run Release -count=1 -timeout 15m ./deploy $(TESTFLAGS)

## Vitess and TiDB

.PHONY: cluster
cluster: bin/cluster ## run a Vitess cluster with two shards until Ctrl-C (PORT=15300 REPLICAS=0); builds Vitess once, in minutes
	@programs=$$(tools/vitess/programs.sh); \
	exec bin/cluster -programs "$$programs" -base-port $(PORT) -replicas $(REPLICAS)

.PHONY: bin/cluster
bin/cluster: toolchain
	@tools/engines.sh mysql
	@go build -o bin/cluster ./tools/enginetest/vitess/cluster

# Sources come from tools/tidb, a separate module: `make test` does not need TiDB.
.PHONY: tidb
tidb: toolchain ## run TiDB's server to try things on; builds it once, for minutes (TIDB_PORT=14000 TIDB_FOLDER=…)
	@exec tools/tidb/tidb.sh serve

# Tests with the build tag cluster: those named TestCluster… share one cluster, which VELOCITY_CLUSTER_DSN names, and
# those named TestFault… start separate clusters, from the programs in VELOCITY_VITESS. -p 1 because of the two cores.
CLUSTER_PKG = $(if $(filter ./...,$(PKG)),./db/... ./migrations/... ./cmd/... ./docs,$(PKG))

.PHONY: test-cluster
test-cluster: bin/cluster ## run the tests that need a Vitess cluster, on a separate one (PKG=./db TESTFLAGS=-v)
	@programs=$$(tools/vitess/programs.sh); exec bin/cluster -programs "$$programs" -migrate -- \
		go test -vet=off -tags cluster -run '^TestCluster' -count=1 -p 1 -timeout 30m $(CLUSTER_PKG) $(TESTFLAGS)

.PHONY: test-cluster-faults
test-cluster-faults: bin/cluster ## kill, replace and split parts of Vitess clusters under load, and move a database to one (many minutes)
	@programs=$$(tools/vitess/programs.sh); VELOCITY_VITESS=$$programs \
		go test -tags cluster -run '^TestFault[A-Z]' -count=1 -p 1 -timeout 60m $(CLUSTER_PKG) $(TESTFLAGS)

# TestPortable… and the subtests portable: what the store does by statements alone, which `make test` runs on MySQL. Left
# out are two tests that also make the tables of MySQL, one that compares CHECKs by a column that TiDB does not show, one
# whose LOCK TABLES TiDB ignores, and one that meets a fault of TiDB's embedded store alone: beside commits it answers 8133,
# "data inconsistency", to every other SELECT by an index that it has to look up rows for.
GO_TEST_TIDB = go test -vet=off -count=1 -p 1 -parallel 2 -timeout 60m
NOT_ON_TIDB = TestPeekWithoutAnAnswerInTime|TestPortableTablesAreThoseOfTheSteps|TestPortableUpTakesOver|FuzzProceduresTakeNormalKeys|KeepsTheContract/PeeksRacing

.PHONY: test-tidb
test-tidb: toolchain ## run the tests of engines without procedures on a separate TiDB server (PKG=./db TESTFLAGS=-v)
	@tools/tidb/tidb.sh with $(GO_TEST_TIDB) -run 'Portable|./portable' -skip '$(NOT_ON_TIDB)' \
		$(if $(filter ./...,$(PKG)),./db/... ./migrations/...,$(PKG)) $(TESTFLAGS)
	@$(if $(filter ./...,$(PKG)),tools/tidb/tidb.sh with $(GO_TEST_TIDB) -run Portable ./cmd/... $(TESTFLAGS))

.PHONY: toolchain
toolchain:
	@tools/toolchain.sh
