# All commands for developers and CI. Run `make` for a list.
.DEFAULT_GOAL := help
.PHONY: help setup build run release test check mutants advisories fuzz fuzz-short soak bench bench-short bench-vm conformance limactl vm-image test-vm test-k3s k3s-standin fmt clean
MAKEFLAGS += --no-print-directory

# scripts/setup.sh installs Go here if the machine has no recent version.
export PATH := $(CURDIR)/target/toolchain/go/bin:$(PATH)
# The quick build of `make run`, and the release build.
RUN := target/quick/rdd
RELEASE := target/release/rdd
# Time limit of `make test` for planting defects in the changed files.
MUTANTS_SECONDS ?= 180
PHASE = @scripts/phase.sh

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: ## Install missing packages for building and testing (Debian; does nothing if all are installed)
	@scripts/setup.sh test

build: ## Build the product quickly, into target/quick
	@scripts/setup.sh run
	$(PHASE) 'building $(RUN)'
	@cargo build --profile quick --locked -p rdd

release: ## Build the release binary: smaller and faster, takes twice as long
	@scripts/setup.sh run
	$(PHASE) 'building $(RELEASE)'
	@cargo build --release --locked -p rdd

run: build ## Build, start the container engine and a container in it, and show that they run; can be repeated
	$(PHASE) 'starting'
	@$(RUN) start
	$(PHASE) 'a container'
	@$(RUN) run scripts/first-container.sh
	$(PHASE) 'how it is'
	@$(RUN) status
	$(PHASE) 'the same as objects'
	@$(RUN) ctl get apps,limavms,containers,images --all-namespaces
	$(PHASE) 'next steps'
	@printf '%s\n' \
	    '  $(RUN) run docker ps   your own engine; docker alone, where the context is the current one' \
	    '  $(RUN) set --help      what can be set' \
	    '  $(RUN) ctl get all     everything is an object: get, describe, apply, wait, explain' \
	    '  $(RUN) stop            when you are done; start brings it back' \
	    '  $(RUN) svc delete      removes all of it'

check: ## What a change must pass before it is looked at: tidy, format, lints, tests
	@rm -f target/phases
	@scripts/setup.sh test
	$(PHASE) 'tidy'
	@cargo xtask tidy
	@$(MAKE) advisories
	$(PHASE) 'format'
	@cargo fmt --all --check
	$(PHASE) 'lints'
	@cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(PHASE) 'tests'
	@cargo xtask test --count-file target/test-count

test: check ## Run check, then documentation, a minute of fuzzing, planted defects and a short benchmark; the last line counts the tests
	$(PHASE) 'documentation'
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
	@$(MAKE) fuzz-short
	$(PHASE) 'planted defects in the files that changed'
	@cargo xtask mutants --changed --at-most $(MUTANTS_SECONDS)s
	@$(MAKE) bench-short
	@scripts/phase.sh --summary
	@cat target/test-count

advisories: ## Check the dependencies against the RustSec database, if it is reachable
	$(PHASE) 'advisories'
	@scripts/advisories.sh

mutants: ## Plant every known defect in a copy of the tree; its test must fail (half an hour)
	@cargo xtask mutants

FUZZ = target/debug/rdd-fuzz --grow $(or $(GROW),target/fuzz/corpus)

fuzz: ## Send generated requests to the API server for SECONDS (60), or replay one file: REPLAY=FILE; GROW=FOLDER stores new inputs
	$(PHASE) 'building the fuzzer'
	@cargo build --workspace --bin rdd-fuzz --locked --quiet
	$(PHASE) 'fuzzing'
	@$(FUZZ) --seconds $(or $(SECONDS),60) --seed $(or $(SEED),$$(date +%s)) $(if $(REPLAY),--replay $(REPLAY))

# Uses the build of `make check`. The seed is derived from the commit, so each commit gets a new seed and a repeated run gets the same one.
fuzz-short:
	$(PHASE) 'fuzzing'
	@$(FUZZ) --seconds 60 --seed $$(printf '%d' 0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 1))

# The test kills the daemon repeatedly for most of the time, then lets it run. The time limit allows for a slow start of the machine.
soak: ## Put the release build under full load for SECONDS (600), kill it at random, and check that nothing is lost; RDD_BIN=FILE for another build
	@scripts/setup.sh test
	$(PHASE) 'building for the soak test'
	$(if $(RDD_BIN),@:,@cargo build --release --locked --quiet -p rdd)
	$(PHASE) 'soak test'
	@RDD_BIN=$(or $(RDD_BIN),$(CURDIR)/$(RELEASE)) RDD_SOAK_SECONDS=$(or $(SECONDS),600) \
	    RDD_TEST_TIMEOUT=$$(( $(or $(SECONDS),600) * 2 + 600 )) \
	    cargo xtask test soak --only rdd-e2e/soak --follow --count-file target/test-count-soak

bench: ## Compare all measurements with their goals (some minutes; figures in target/bench.json)
	@scripts/setup.sh test
	$(PHASE) 'building for the benchmark'
	@cargo build --release --locked -p rdd -p rdd-bench
	$(PHASE) 'benchmark'
	@target/release/rdd-bench --json target/bench.json

# Uses the quick build, which takes a third of the time of the release build and is nearly as fast.
bench-short: ## Run half a minute of the benchmark with the build of make run; fails below half of a goal
	$(PHASE) 'building for the benchmark'
	@cargo build --profile quick --locked --quiet -p rdd -p rdd-bench
	$(PHASE) 'short benchmark'
	@target/quick/rdd-bench --short --binary $(RUN) --json target/bench.json

conformance: ## Run Kubernetes' own end-to-end tests (a quarter of an hour to build, ten minutes to run)
	@scripts/setup.sh test
	$(PHASE) 'building the daemon'
	@cargo build --release --locked --quiet -p rdd
	$(PHASE) 'end-to-end tests of Kubernetes'
	@conformance/e2e/run.sh

limactl: ## Build limactl from the Go module proxy, into target/lima
	@scripts/setup.sh vm
	$(PHASE) 'limactl'
	@scripts/limactl.sh

vm-image: ## Build the guest image for tests from Debian packages, into target/vm-image
	@scripts/setup.sh vm
	$(PHASE) 'the image of the guest'
	@scripts/vm-image.sh

# Uses the same runner as all other tests, so that nothing from `make test` is built again.
test-vm: limactl vm-image k3s-standin ## Boot a virtual machine with the product, and stop it in every way (root; at most a quarter of an hour)
	$(PHASE) 'a virtual machine from template to graceful end'
	@RDD_TEST_VM=1 cargo xtask test scenario --only rdd-e2e/vm --follow --count-file target/test-count-vm
	@scripts/phase.sh --summary

bench-vm: limactl vm-image k3s-standin ## Measure the time that the product adds to a start by Lima (root; eight boots)
	$(PHASE) 'starts of a virtual machine, by Lima alone and by the product'
	@RDD_TEST_VM=1 RDD_BENCH_VM=3 RDD_TEST_TIMEOUT=2400 cargo xtask test overhead --only rdd-e2e/vm --follow

# The project builds no K3s: RDD_TEST_K3S names an existing one. RDD_TEST_CNI names a folder with CNI plugins, for a K3s without them.
test-k3s: ## Test a real K3s on this machine and in a virtual one: RDD_TEST_K3S=PROGRAM, RDD_TEST_CNI=FOLDER if it has no CNI plugins (root)
	@test -x "$(RDD_TEST_K3S)" || { echo 'make test-k3s needs a K3s: RDD_TEST_K3S=PROGRAM' >&2; exit 2; }
	@test -z "$(RDD_TEST_CNI)" || test -x "$(RDD_TEST_CNI)/host-local" || { echo 'RDD_TEST_CNI names no folder with CNI plugins: host-local is not there' >&2; exit 2; }
	@scripts/setup.sh test
	$(PHASE) 'Kubernetes on this machine'
# One cluster at a time: all of them have their rules of packets in the tables KUBE-* of one network namespace, and an ending one removes them.
	@RUST_TEST_THREADS=1 RDD_TEST_K3S='$(abspath $(RDD_TEST_K3S))' RDD_TEST_CNI='$(if $(RDD_TEST_CNI),$(abspath $(RDD_TEST_CNI)))' RDD_TEST_TIMEOUT=2400 \
	    cargo xtask test --only rdd-e2e/kubernetes --follow
	@$(MAKE) limactl vm-image
	$(PHASE) 'Kubernetes in a virtual machine'
	@RDD_TEST_VM=1 RDD_TEST_K3S='$(abspath $(RDD_TEST_K3S))' RDD_TEST_CNI='$(if $(RDD_TEST_CNI),$(abspath $(RDD_TEST_CNI)))' RDD_TEST_TIMEOUT=3000 \
	    cargo xtask test scenario --only rdd-e2e/vm --follow

k3s-standin:
	@cd conformance/k3s-standin && CGO_ENABLED=0 GOTOOLCHAIN=local go build -o $(CURDIR)/target/conformance/k3s-standin .

fmt: ## Format the sources
	@cargo fmt --all

clean: ## Remove build output and support bundles of failed tests
	@cargo clean
	@rm -rf .evidence
