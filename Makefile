# skiff needs Go and make. git stamps the version where it is there; a C compiler turns the race detector on.

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT     ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS    := -s -w -X skiff/internal/runtime/kube.version=$(VERSION) -X skiff/internal/runtime/kube.commit=$(COMMIT)

# What `make dist` and `make image` build for: skiff-dev with CEL takes minutes for each that is not cached.
PLATFORMS  ?= linux-amd64 linux-arm64 linux-armv7 darwin-amd64 darwin-arm64 windows-amd64.exe
# The time that is in what they make: that of the commit, so that the same commit makes the same bytes.
TIME       ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
RELEASE     = cd internal/tools/release && $(GO) run . $(1) -dir $(CURDIR)/dist -root $(CURDIR) -time $(TIME) \
	-version "$(or $(VERSION),dev)" -commit "$(COMMIT)" -platforms "$(PLATFORMS)"

# The newest release that runs with Go 1.26. `go run` keeps it out of go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs cgo and a C compiler; a fresh machine has none.
RACE := $(if $(shell command -v $$($(GO) env CC) 2>/dev/null),-race)

# The number of random histories of each controller, one per seed from 1: some dozen find a shallow bug. .ci/run takes
# 100, make nightly 3,000.
SEEDS ?= 40
# The same with the race detector, which makes a history seven times slower: make nightly alone runs them.
RACE_SEEDS ?= 20

# How many packages are tested at once. Some of their tests wait for real processes: as many as there are processors
# would leave these idle.
AT_ONCE ?= $(or $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN) 2>/dev/null),4)

# How long each fuzz target runs: long enough to meet a shallow bug, short enough to be run before a commit. Without
# -fuzzminimizetime the first input that finds something new would be made smaller for a minute, and nothing else tried.
FUZZTIME ?= 10s

# A commit: `make fuzz` runs only the targets of packages that have changed since. Empty: all.
SINCE ?=

# Without the traces of gRPC, which skiff-dev does not use but links, the linker leaves out what nothing calls.
CEL_BUILD  = CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -ldflags "$(LDFLAGS)"

# Modules of their own below internal/, so that what they need never reaches the product's go.mod.
NESTED := $(patsubst %/go.mod,%,$(wildcard internal/*/*/go.mod))

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/skiff, and bin/skiff-dev without CEL: static, stripped, version stamped
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: skiff-dev
skiff-dev: ## build bin/skiff-dev as it is released: with CEL, from the packages of a real server (50 MB, minutes when nothing is cached)
	@echo "building bin/skiff-dev with CEL from the packages of kube-apiserver: five minutes on two cores the first time"
	@echo "(their names follow as they are compiled), then seconds; make build has one without CEL in seconds"
	cd internal/testcluster/cel && $(CEL_BUILD) -v -o $(CURDIR)/bin/skiff-dev ./skiff-dev

.PHONY: dist
dist: ## build the binaries of a release for PLATFORMS (six) in dist/, with checksums and bills of materials
	@rm -rf dist
	@set -e; for p in $(PLATFORMS); do \
		arch=$${p#*-}; arch=$${arch%.exe}; arm=; \
		case $$arch in armv7) arch=arm; arm=7;; esac; \
		export CGO_ENABLED=0 GOOS=$${p%%-*} GOARCH=$$arch GOARM=$$arm; \
		echo "build dist/skiff-$$p and dist/skiff-dev-$$p"; \
		$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o dist/skiff-$$p ./cmd/skiff; \
		(cd internal/testcluster/cel && $(CEL_BUILD) -o $(CURDIR)/dist/skiff-dev-$$p ./skiff-dev); \
	done
	@$(call RELEASE,sbom)
	@$(call RELEASE,sums)
	@ls -l dist

.PHONY: image
image: dist ## build dist/skiff-image.tar and dist/skiff-dev-image.tar for the Linux of PLATFORMS without a daemon, and run them
	@$(call RELEASE,image)
	@$(call RELEASE,sums)
	cd internal/tools/release && $(GO) test -count=1 . -dist $(CURDIR)/dist -platforms "$(PLATFORMS)"
	@echo "load dist/*-image.tar with docker load -i, ctr images import, or kind load image-archive"

.PHONY: demo
demo: build ## show what the controllers do on the test cluster, step by step, on a terminal with the live page
	@page=; if [ -t 0 ] && [ -t 1 ]; then page=--page; fi; bin/skiff-dev demo $$page

HISTORIES := ^(TestRandomHistories|TestKilling)
# The packages with histories: no other tests have the flag -seeds. The slowest two come first.
STORIED = ./internal/operators/restart ./internal/hooks/reconcile $(shell grep -rlE '^func Test(RandomHistories|Killing)' \
	--include='*_test.go' internal | xargs -n 1 dirname | sort -u | sed 's|^|./|')

# Without cgo and with the flags of `make build`, for tests, histories and what tests build: nothing is compiled twice.
PLAIN = CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath" $(GO)

.PHONY: test
test: ## run the unit tests but for those that take longest, then random histories: minutes when nothing is compiled yet
	@began=$$(date +%s) && \
		echo "compiling; the packages follow as they are done, none where nothing has changed" && \
		$(PLAIN) build -v ./... && \
		echo "testing all but what takes longest; a line for each package, the first after half a minute" && \
		$(PLAIN) test -vet=off -short -skip '$(HISTORIES)' -p $(AT_ONCE) ./... && \
		echo "testing $(SEEDS) random histories of each controller" && \
		$(MAKE) --no-print-directory -s histories && \
		echo "all passed: the tests of $$($(GO) list ./... | wc -l) packages and $(SEEDS) random histories of each" \
			"controller, in $$(($$(date +%s) - began)) s; make test-race takes longer and finds more"

# These take longest with the race detector, and begin: so none of them is left alone at the end.
LONGEST := $(addprefix ./internal/,hooks/reconcile cli operators/redis testcluster/apiserver testcluster/cli)

# The laws of the tree (package internal) start no goroutine of the product: the race detector would only slow them.
.PHONY: test-race
test-race: ## run all unit tests (with the race detector where a C compiler is found), then random histories
	@$(if $(RACE),:,echo "no C compiler found: testing without the race detector")
	@$(PLAIN) test -vet=off ./internal & laws=$$!; \
		GORACE=atexit_sleep_ms=0 $(GO) test -vet=off $(RACE) -p $(AT_ONCE) \
			$$($(GO) list $(LONGEST) ./... | grep -v '/internal$$'); others=$$?; \
		wait $$laws && exit $$others # lint vets
	@$(MAKE) --no-print-directory histories

# Without the race detector. They make much garbage and keep little of it. Those that take longest begin, so that no
# processor is idle at the end.
.PHONY: histories
histories: ## run each controller through SEEDS (40) random histories, and kill it at every third of its requests
	GOGC=400 $(PLAIN) test -vet=off -timeout 60m -run '$(HISTORIES)' $(STORIED) -seeds $(SEEDS) -kill-step 3

.PHONY: histories-race
histories-race: ## run each controller through RACE_SEEDS (20) random histories with the race detector (ten minutes)
	GORACE=atexit_sleep_ms=0 $(GO) test -vet=off $(RACE) -timeout 60m -run '^TestRandomHistories' $(STORIED) -seeds $(RACE_SEEDS)

.PHONY: generate
generate: ## write the Roles and the Helm chart in examples/, and SECURITY.md's table of rights, from what the controllers declare
	$(GO) test -count=1 ./internal/cli -run '^(TestTheWrittenRightsAreTheDeclaredOnes|TestTheChartIsMadeOf)' -update

.PHONY: chart
chart: ## render the Helm chart with helm, compare it with `skiff manifests`, and install it on skiff-dev
	cd internal/tools/chart && $(GO) test -vet=off -count=1 -timeout 30m .

# A test waits for its cluster most of the time: three suites side by side, each with a control plane of its own, keep
# two cores busy. E2E=-short leaves out what takes minutes.
PARTS ?= 3
E2E   ?=

.PHONY: e2e
e2e: ## run the suite on a real control plane (the first run builds that, which takes minutes)
	cd internal/testcluster/cel && $(GO) test -vet=off -count=1 ./...
	cd internal/tools/e2e && $(GO) test -vet=off -count=1 -timeout 80m . -parts $(PARTS) $(E2E)

.PHONY: outside
outside: ## run controller-runtime's own test suites (SUITES: some) and those of metacontroller (METACONTROLLER_SOURCE: a checkout)
	cd internal/tools/outside && $(GO) test -vet=off -count=1 -timeout 40m ./... $(if $(SUITES),-run '^(TestControllerRuntimesOwnSuites|TestClientGosClients)' -suites '$(SUITES)')

# Those of the groups whose subject is the API, workloads and kubectl.
SPECS ?= \[sig-(api-machinery|apps|cli)\].*\[Conformance\]

.PHONY: kubernetes
kubernetes: ## run the conformance SPECS of Kubernetes' own e2e suite on a real control plane and on skiff-dev (an hour)
	cd internal/tools/e2e && $(GO) test -vet=off -count=1 -timeout 4h -run '^TestKubernetesOwnSpecs$$' -v . -specs '$(SPECS)'

# BROWSER=-required fails where Chromium is missing, instead of skipping the tests. They wait most of the time.
BROWSER ?=

.PHONY: browser
browser: ## test the live page in headless Chromium (skipped with a message where that is not installed)
	cd internal/tools/browser && $(GO) test -vet=off -count=1 -timeout 10m -parallel 4 $(BROWSER)

.PHONY: pictures
pictures: ## make the pictures of the live page in examples/page anew; needs Chromium
	cd internal/tools/browser && $(GO) test -vet=off -count=1 -run '^TestThePicturesOfTheREADMEAreMade$$' -required -pictures ../../../examples/page

.PHONY: figures
figures: ## measure memory, CPU, requests and latencies on a real control plane and print a table (twenty minutes)
	cd internal/tools/e2e && $(GO) test -count=1 -timeout 40m -run '^$$' -bench . -benchtime 1x .

.PHONY: figures-quick
figures-quick: ## measure the webserver controller in turn with a program that makes the same requests, and print the ratios (five minutes)
	cd internal/tools/e2e && $(GO) test -vet=off -count=1 -timeout 20m -run '^$$' -bench '^BenchmarkBesideTheFloor$$' -benchtime 1x .

.PHONY: figures-peer
figures-peer: ## the same beside a controller on controller-runtime (nine minutes; WORKERS: 10 if not set)
	cd internal/tools/e2e && $(GO) test -vet=off -count=1 -timeout 40m -run '^$$' -bench '^BenchmarkBesideTheFloor$$' -benchtime 1x . -peer -workers $(or $(WORKERS),10)

.PHONY: attacks
attacks: ## have one tenant attack the others in all ways that are known, on a real control plane (an hour)
	cd internal/tools/e2e && $(GO) test -count=1 -timeout 120m -run '^(TestOneTenantNeverCostsAnother|TestTheHooksOfOneTenantNeverCostAnother)$$' -v . -attacks

.PHONY: versions
versions: ## compare skiff-dev as older versions of Kubernetes with their sources, and with a kube-apiserver that it builds
	cd internal/tools/e2e && $(GO) test -count=1 -timeout 60m -run '^(TestVersionTable|TestOlderServers)' . -versions

SOAK ?= 10m

.PHONY: soak
soak: ## run the binary for SOAK (10m) against a server that restarts every minute, and see that it does not grow
	$(GO) test -count=1 ./cmd/skiff -run '^TestSoak$$' -soak $(SOAK) -timeout 0 -v

.PHONY: bench
bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Up to Go 1.26 the end of FUZZTIME may fail a target (golang/go#75804): then the log has nothing but progress and that
# error, while a finding is told in lines of its own. An input that runs for ever is no failure to Go at all: no input
# gets done any more, in the last four lines of progress, which are of about nine seconds: a busy machine may rest for three.
FUZZ_END := fuzz: elapsed.*|--- FAIL: Fuzz[A-Za-z0-9_]+ \(.*|    context deadline exceeded|FAIL.*|exit status 1|
# The targets of a package share one program: go test would vet and link it anew for each.

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s); with SINCE=COMMIT those whose package has changed since
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; log=$$dir/log; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' internal); do \
		package=$$(dirname $$file); \
		if [ -n "$(SINCE)" ] && git diff --quiet $(SINCE) -- $$package; then continue; fi; \
		program=$$dir/$$(echo $$package | tr / -); cache=$$($(GO) env GOCACHE)/fuzz/$$(cd $$package && $(GO) list .); \
		[ -e $$program ] || (cd $$package && $(GO) test -c -vet=off -fuzz . -o $$program .) || exit 1; \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "fuzz $$target in $$package"; \
			(cd $$package && $$program -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzminimizetime 10x -test.fuzzcachedir "$$cache") >$$log 2>&1 || { \
				cat $$log; \
				grep -qx '    context deadline exceeded' $$log && ! grep -qvxE '$(FUZZ_END)' $$log || exit 1; \
				echo "that was the end of FUZZTIME (golang/go#75804), and no finding"; \
			}; \
			grep '^fuzz: elapsed' $$log | tail -n 4 | grep -qE 'execs: .*\([1-9]|coverage: [1-9]' || \
				{ cat $$log; echo "$$target hangs: in the end no input got done"; exit 1; }; \
			grep '^fuzz: elapsed' $$log | tail -n 1; \
		done; \
	done

# Two clones in directories of different names, so that a path that got into the binary is found.
.PHONY: reproducible
reproducible: ## build the last commit from two clones and compare the binaries byte by byte
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	for clone in one another; do \
		git clone -q --no-hardlinks . $$dir/$$clone; \
		$(MAKE) --no-print-directory -s -C $$dir/$$clone build; \
	done; \
	for program in skiff skiff-dev; do cmp $$dir/one/bin/$$program $$dir/another/bin/$$program; done; \
	echo "the binaries of two clones are equal"

# What takes hours on two cores: before a release, and before an issue is closed.
.PHONY: nightly
nightly: ## run all that takes long: 3,000 histories, 20 with the race detector, minutes of fuzzing, all platforms, all suites, and the soak test
	$(MAKE) lint
	$(MAKE) test-race SEEDS=3000
	$(MAKE) histories-race
	$(MAKE) fuzz FUZZTIME=2m
	$(MAKE) reproducible
	$(MAKE) image
	$(MAKE) chart
	$(MAKE) outside
	$(MAKE) browser BROWSER=-required
	$(MAKE) e2e
	$(MAKE) versions
	$(MAKE) kubernetes
	$(MAKE) figures-quick
	$(MAKE) attacks
	$(MAKE) soak

.PHONY: conformance
conformance: ## print each protocol rule with its tests and their results (E2E=1: run the e2e suite and the browser for it, too)
	@( $(GO) test $(RACE) -json ./...; $(if $(E2E),cd internal/tools/e2e && $(GO) test -json -count=1 -timeout 40m ./...; cd ../browser && $(GO) test -json -count=1;) ) | \
		$(GO) run ./internal/tools/conformance

# The modules that staticcheck reads. Those below internal/ need minutes when nothing is cached: it reads Kubernetes, too.
CHECKED ?= . $(NESTED)

.PHONY: lint
lint: ## gofmt, go mod tidy and go vet on all modules, staticcheck (staticcheck.conf) on those of CHECKED (all)
	@files=$$(find . -name '.?*' -prune -o -name '*.go' -exec gofmt -l {} +); \
		if [ -n "$$files" ]; then echo "run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GO) mod tidy -diff
	@set -e; for dir in . $(NESTED); do \
		echo "lint $$dir"; \
		cd $(CURDIR)/$$dir; \
		$(GO) vet ./...; \
		case " $(CHECKED) " in *" $$dir "*) $(GO) run $(STATICCHECK) ./...;; esac; \
	done
