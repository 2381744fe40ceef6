# make help

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export DELEGATE_UPGRADER_STATIC := $(TARGET_DIR)/static

.DEFAULT_GOAL := help
.PHONY: help demo test check hooks matrix fidelity sim mutants fuzz lint bench image docs engines static clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1 \t/p' $(MAKEFILE_LIST) | sort | expand -t 10

demo: static ## two delegates upgraded before your eyes; DEMO=private-registry or DEMO=air-gapped for such a site
	tests/lab/run examples/$(or $(DEMO),demo)

test: static ## all tests, those on a real engine and a real registry too
	cargo test --locked --workspace --no-run
	@# The tests that restart the engine get one of their own, beside the others'. Most tests wait, so four at once are not
	@# too many for two processors.
	@tests/lab/run cargo test --locked --workspace --test engine restarts:: -- --ignored >$(TARGET_DIR)/restarts.log 2>&1 & restarts=$$!; \
	code=0; RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} LAB_COMPOSE=1 LAB_PROXY=1 tests/lab/run cargo test --locked --workspace || code=$$?; \
	wait $$restarts || code=$$?; cat $(TARGET_DIR)/restarts.log; exit $$code

check: lint ## the fast part of CI: lint, and the tests without an engine
	cargo test --locked --workspace --lib --test pure --test manager --test memory

hooks: ## makes git run that part before each push
	install .ci/pre-push "$$(git rev-parse --git-path hooks)/pre-push"

matrix: static ## every call of an upgrade with every fault on a real engine; MATRIX='start-first kill' selects
	MATRIX_SHARE=$(or $(MATRIX_SHARE),all) tests/lab/run cargo test --locked --workspace --test matrix -- $(MATRIX)

fidelity: static ## every option of a container through a whole upgrade on each engine; FIDELITY='mount' selects
	FIDELITY='$(or $(FIDELITY),all)' tests/lab/fidelity

sim: ## lives of a host, everything going wrong; SEEDS=1000, SEEDS=a..b, or SEED=n for the story of one
	SEEDS=$(or $(SEEDS),1000) $(if $(SEED),SEED=$(SEED)) tests/memory/sim/play

mutants: ## each rule of the rollout taken out in turn: which tests mind
	tests/mutants/run $(MUTANTS)

fuzz: ## random inputs, guided by what they reach; FUZZ=document selects, FUZZ_SECONDS=600
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run $(FUZZ)

lint: ## formatting, clippy; cargo-deny and shellcheck where they are installed
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --locked check; else echo 'cargo-deny is not installed: skipped'; fi
	@if command -v shellcheck >/dev/null; then shellcheck -x $$(grep -rlE '^#!/usr/bin/env bash$$' .ci examples fuzz/run tests); else echo 'shellcheck is not installed: skipped'; fi

bench: static ## size, memory, time to the first call, on a real engine
	tests/lab/run tests/lab/bench

image: static ## delegate-upgrader:dev on the engine of DOCKER_HOST or the usual socket; pulls nothing
	tests/lab/upgrader-image delegate-upgrader:dev

docs: ## the API documentation; a warning is an error
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps

engines: ## Docker engines of other versions and Podman for tests/lab/run, from Debian's packages
	tests/lab/engines all

static: ## the static binaries that the images are made of
	tests/lab/static

clean: ## removes what was built
	cargo clean
