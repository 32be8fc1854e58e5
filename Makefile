# Everything a contributor runs. "make" alone lists it.

GO           ?= go
FUZZTIME     ?= 20s
KILL_ROUNDS  ?= 200
CHAOS_SECONDS ?= 600
SOAK_SECONDS ?= 1200
CHAOS_SEEDS   ?= 1 2 3
GOLANGCI     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# What npm brings may hold Go files; they are not ours to format.
GO_FILES      = find . -name '*.go' -not -path './web/node_modules/*'

.DEFAULT_GOAL := help
.NOTPARALLEL: # the parts of "test" go in order, and a small machine is busy enough
.PHONY: help run test install test-go test-web lint bench kill chaos soak fuzz release web clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## run the server on http://127.0.0.1:8420 with its data in ./assent-data
	$(GO) run ./cmd/assent

test: install test-go test-web ## everything that must pass before a merge

install: ## install what the tests need and this machine lacks
	.ci/install

test-go: ## formatting, vet and all Go tests with the race detector
	@unformatted="$$($(GO_FILES) -print0 | xargs -0 gofmt -l)" && \
		if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags chaos,soak ./cmd/assent
	$(GO) test -race -count=1 -p 2 -timeout 20m ./...
	$(GO) test -count=1 -run TestConvergence ./service/live
	$(MAKE) chaos CHAOS_SEEDS="1 random" CHAOS_SECONDS=50

test-web: ## types, unit tests, dist against src, and the page in a real browser
	cd web && npm run typecheck
	cd web && npm test
	cd web && npm run check:dist
	cd web && npm run e2e

lint: ## golangci-lint; the first run builds it, which takes minutes
	$(GO) run $(GOLANGCI) run ./...

bench: ## all benchmarks, those of the store on a PostgreSQL that waits for its disk
	ASSENT_TEST_DURABLE=1 $(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

kill: ## the tests that kill the server, many rounds (KILL_ROUNDS=200)
	ASSENT_KILL_ROUNDS=$(KILL_ROUNDS) $(GO) test -count=1 -run TestKill ./cmd/assent -timeout 60m

chaos: ## several servers in bad weather (CHAOS_SEEDS="1 2 3" CHAOS_SECONDS=600 each)
	ASSENT_CHAOS_SEEDS="$(CHAOS_SEEDS)" ASSENT_CHAOS_SECONDS=$(CHAOS_SECONDS) \
		$(GO) test -tags chaos -count=1 -v -run 'TestChaos$$|TestFirstDecision' ./cmd/assent -timeout 60m

soak: ## servers at an even load, for leaks (SOAK_SECONDS=1200)
	ASSENT_SOAK_SECONDS=$(SOAK_SECONDS) $(GO) test -tags soak -count=1 -v -run 'TestSoak' ./cmd/assent -timeout 90m

fuzz: ## each fuzz target for a short time (FUZZTIME=20s)
	@$(GO_FILES) -name '*_test.go' -print0 | xargs -0 grep -Ho '^func Fuzz[A-Za-z0-9_]*' | \
	while IFS=: read -r file target; do \
		target="$${target#func }"; echo "$$file $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || exit 1; \
	done

release: ## keep a database of this release for the tests of later ones (NAME=0.1.0)
	@test -n "$(NAME)" || { echo "say which: make release NAME=0.1.0"; exit 1; }
	ASSENT_RELEASE="$(CURDIR)/cmd/assent/testdata/releases/$(NAME)" $(GO) test -count=1 -run 'TestRelease$$' ./cmd/assent
	cd migrations && sha256sum postgres/*.sql sqlite/*.sql > released.sha256

web: ## rebuild web/dist, which is committed, from web/src
	.ci/install web
	cd web && npm run build

clean: ## remove what was built; never data or web/dist
	rm -rf assent bin coverage.out web/node_modules web/.vite
	$(GO) clean -testcache
