# make help

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static
MDBOOK := 0.5.4

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check hooks matrix self-upgrade surroundings swarm kubernetes fidelity dead-socket compose rootless stores sim mutants fuzz lint bench soak image image-kubernetes docs book recording man deb packages release reproducible production newcomer compose-page dockerfile engines static static-kubernetes clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1 \t/p' $(MAKEFILE_LIST) | sort | expand -t 20

demo: static ## upgrade two delegates before your eyes; DEMO=private-registry or DEMO=air-gapped shows such a site
	tests/lab/run examples/$(or $(DEMO),demo)

test: ## run the tests, including those on a real engine and a real registry
	tests/lab/all

test-all: test ## run what a release must pass: besides `test` a cluster, all engines, all packages, a bare Debian; it takes hours
	$(MAKE) kubernetes
	$(MAKE) swarm
	$(MAKE) self-upgrade
	$(MAKE) dead-socket
	$(MAKE) sim
	$(MAKE) surroundings
	$(MAKE) compose
	$(MAKE) rootless
	$(MAKE) stores
	$(MAKE) fidelity
	$(MAKE) packages
	$(MAKE) demo DEMO=private-registry
	$(MAKE) demo DEMO=air-gapped
	$(MAKE) production
	$(MAKE) newcomer
	$(MAKE) compose-page
	$(MAKE) dockerfile
	$(MAKE) book
	tests/lab/release
	tests/lab/bare-root

check: lint ## run the fast part of CI: lint, and the tests without an engine
	cargo test --locked --workspace --lib --test pure --test clients --test memory

hooks: ## make git run `check` before each push
	install .ci/pre-push "$$(git rev-parse --git-path hooks)/pre-push"

matrix: static ## try every fault at every call of an upgrade, on a real engine; MATRIX='start-first kill' selects
	MATRIX_SHARE=$(or $(MATRIX_SHARE),all) tests/lab/run cargo test --locked --workspace --test matrix -- $(MATRIX)

self-upgrade: static ## kill the upgrader or its successor at every call of their exchange, on a real engine
	tests/lab/run cargo test --locked --workspace --test engine finishes_exchange_killed_at_any_call -- --ignored --nocapture

dead-socket: static ## restart an engine under an upgrader whose socket is mounted as a file; it takes six minutes
	LAB_ENGINE=own tests/lab/run cargo test --locked --workspace --test engine dead_socket:: -- --ignored --nocapture

surroundings: static ## test the status page in a browser, the alerts with promtool, a fleet with Prometheus, and the Quadlet with Podman and systemd
	LAB_BROWSER=1 LAB_QUADLET=1 LAB_SYSTEMD=1 tests/lab/run sh -c '\
		cargo test --locked --workspace --test engine -- --ignored page:: quadlet:: canaries:: && \
		cargo test --locked --workspace --test pure monitoring::'

swarm: static ## kill the upgrader at every call of a service's update, its manager, and a second node of the Swarm
	LAB_ENGINE=own tests/lab/run cargo test --locked --workspace --test engine -- --ignored --nocapture --test-threads 2 swarm_kills:: --skip killed_at_any_write
	LAB_ENGINE=own tests/lab/run cargo test --locked --workspace --test engine -- --ignored --nocapture swarm_manager:: swarm_nodes::

kubernetes: static static-kubernetes ## upgrade Deployments of a real cluster, which is built from Debian's source the first time
	cargo test --locked --workspace --features delegate-upgrader/kubernetes --test kubernetes --no-run
	@# An outage of the API server would be one for all tests, so that one has the cluster for itself.
	LAB_PROXY=1 LAB_KUBERNETES_UPGRADER=$(DELEGATE_UPGRADER_STATIC)/delegate-upgrader-kubernetes tests/lab/kubernetes run sh -c '\
		cargo test --locked --workspace --features delegate-upgrader/kubernetes --test kubernetes -- --include-ignored --test-threads 4 --skip an_api_server && \
		cargo test --locked --workspace --features delegate-upgrader/kubernetes --test kubernetes -- --ignored an_api_server'
	tests/lab/chart
	tests/lab/kubernetes-examples

fidelity: static ## take every option of a container through an upgrade, on each engine; FIDELITY='mount' selects
	FIDELITY='$(or $(FIDELITY),all)' tests/lab/fidelity

compose: export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static-quick
compose: ## run the tests with Docker Compose, with each version and on each engine of tests/lab/tested
	tests/lab/static quick
	cargo test --locked --quiet --workspace --test engine --no-run
	tests/lab/each compose cargo test --locked --workspace --test engine -- \
		--include-ignored compose:: itself_elsewhere::compose ways::compose_file

rootless: export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static-quick
rootless: ## run replacements, failures and the fidelity matrix on engines without root and with mapped users
	tests/lab/static quick
	cargo test --locked --quiet --workspace --test engine --test fidelity --no-run
	tests/lab/each rootless sh -c '\
		cargo test --locked --workspace --test engine -- replacements:: failures:: && \
		FIDELITY=all cargo test --locked --quiet --workspace --test fidelity'

stores: export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static-quick
stores: ## run replacements, drains, faults and the rules of an engine on newer engines, with either image store
	tests/lab/static quick
	cargo test --locked --quiet --workspace --test engine --test matrix --no-run
	tests/lab/each stores sh -c '\
		cargo test --locked --workspace --test engine -- \
			auto_remove:: contract:: drains:: failures:: operator:: originals:: replacements:: && \
		MATRIX_SHARE=$(or $(MATRIX_SHARE),30) cargo test --locked --quiet --workspace --test matrix'

sim: ## simulate lives of a host with everything going wrong; SEEDS=1000, SEEDS=a..b, or SEED=n for one story
	SEEDS=$(or $(SEEDS),1000) $(if $(SEED),SEED=$(SEED)) tests/memory/sim/play

mutants: ## change the decision in one place at a time: a test must notice; SINCE=main takes what differs from that, BY_HAND=1 the list
	@command -v cargo-mutants >/dev/null || cargo install cargo-mutants --locked
	tests/mutants/run $(if $(SINCE),--since $(SINCE)) $(if $(BY_HAND),--by-hand) $(MUTANTS)

fuzz: ## try random inputs, guided by the code they reach; FUZZ=document selects, FUZZ_SECONDS=600
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run $(FUZZ)

lint: ## check formatting, language, scale, clippy; cargo-deny and shellcheck if they are installed
	cargo fmt --all --check
	.ci/language
	.ci/scale
	cargo clippy --locked --workspace --all-targets --features delegate-upgrader/kubernetes -- -D warnings
	@# The program for clusters lacks what only a Docker host needs.
	cargo check --locked --bin delegate-upgrader --no-default-features --features kubernetes
	@if command -v cargo-deny >/dev/null; then .ci/deny; else echo 'cargo-deny is not installed: skipped'; fi
	@if command -v shellcheck >/dev/null; then shellcheck -x $$(grep -rlE '^#!(/usr/bin/env bash|/bin/sh)$$' .ci docs examples fuzz/run packaging tests); else echo 'shellcheck is not installed: skipped'; fi

bench: export CARGO_PROFILE_DEV_OPT_LEVEL := 1
bench: static ## measure size, memory, calls and times on a real engine; BENCH=services, BENCH=peers, or BENCH=deployments on a real cluster
ifeq ($(BENCH),deployments)
	tests/lab/kubernetes run cargo test --locked --quiet --features kubernetes --test kubernetes -- --ignored --nocapture cluster::fifty
else
	tests/lab/static socket_proxy
	LAB_CURL=1 tests/lab/run tests/lab/bench$(if $(filter peers,$(BENCH)),-peers)
	[ -n "$(BENCH)" ] || cargo bench --locked --quiet --bench pure
endif

soak: static ## run it for hours with a tenth of a processor and 16 MB: memory, descriptors, what is left; SOAK_RUNS=10000
	tests/lab/run tests/lab/soak

image: static ## build delegate-upgrader:dev on the engine at DOCKER_HOST or the usual socket, without pulling
	tests/lab/upgrader-image delegate-upgrader:dev

image-kubernetes: static-kubernetes ## build delegate-upgrader-kubernetes:dev, the image for clusters, in the same way
	FOR=kubernetes tests/lab/upgrader-image delegate-upgrader-kubernetes:dev

docs: ## build the API documentation; a warning is an error
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps

book: ## make target/book of the pages, with a search; mdBook is installed into target/tools the first time, in some minutes
	@[ "$$(PATH=$(TARGET_DIR)/tools/bin mdbook --version 2>/dev/null)" = "mdbook v$(MDBOOK)" ] || \
		cargo install mdbook --locked --version $(MDBOOK) --no-default-features --features search --root $(TARGET_DIR)/tools
	@PATH="$(TARGET_DIR)/tools/bin:$$PATH" docs/build $(TARGET_DIR)/book
	cargo test --locked --quiet --test pure -- links:: --include-ignored

recording: static ## make docs/demo.svg of a real demo, and docs/usage/page-light.png and page-dark.png in a browser
	LAB_BROWSER=1 tests/lab/run docs/record

man: ## write the man page to target/man and the completions of bash, zsh and fish to target/completions
	cargo run --locked --quiet --package manual -- $(TARGET_DIR)

deb: ## make a .deb of the static binary in target/packages, and an .rpm if rpmbuild is installed
	@rm -rf $(TARGET_DIR)/packages
	tests/lab/static manual
	@$(DELEGATE_UPGRADER_STATIC)/manual $(TARGET_DIR) >/dev/null
	@packaging/deb "$$(dpkg --print-architecture)" $(DELEGATE_UPGRADER_STATIC)/delegate-upgrader $(TARGET_DIR)/packages
	@if command -v rpmbuild >/dev/null; then \
		packaging/rpm "$$(dpkg --print-architecture)" $(DELEGATE_UPGRADER_STATIC)/delegate-upgrader $(TARGET_DIR)/packages; \
	else echo 'rpmbuild is not installed: no .rpm'; fi

packages: deb ## install, upgrade, remove and purge the packages in a minimal Debian, with and without systemd
	tests/lab/packages $(TARGET_DIR)/packages

release: ## build the files of a release in target/dist: binaries, packages, SBOMs, checksums; ARCHS='amd64 arm64'
	packaging/release

reproducible: ## build the release of the last commit twice, in two directories, and compare every file
	packaging/reproducible

production: static ## follow the page from nothing to production with a stopwatch, beside two delegates
	tests/lab/bare-root tests/lab/production

newcomer: ## try the page for newcomers with a stopwatch: every command, on bases made of Debian's packages
	tests/lab/newcomer

compose-page: export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static-quick
compose-page: ## follow the page on Docker Compose, command by command, and upgrade two delegates
	tests/lab/static quick
	tests/lab/compose-page

dockerfile: ## build all stages of the Dockerfile, on a base made of Debian's packages and this machine's Rust
	tests/lab/dockerfile

engines: ## prepare Docker engines of other versions, and Podman, for tests/lab/run, from Debian's packages
	tests/lab/engines all

static: ## build the static binaries for the images
	tests/lab/static

static-kubernetes: ## build the static binary for the image of clusters
	tests/lab/static kubernetes

clean: ## remove all build results
	cargo clean
