# What people type. `make help` lists it; the work is in scripts/, fuzz/run and benches/.

CARGO ?= cargo
TOOLS := $(CURDIR)/target/tools
DENY_VERSION := 0.20.2

# A seeded slice for each change; the long runs are in `soak`.
FUZZ_SEED ?= 1
FUZZ_SECONDS ?= 8
SOAK_FUZZ_SECONDS ?= 600
SOAK_SEEDS ?= 100
SOAK_KILLS ?= 500
SOAK_UPDATE_KILLS ?= 1000
SOAK_MINUTES ?= 20
SOAK_LIVES ?= 300
# 1: every combination of odd zones; N: every N-th.
SOAK_EVERY ?= 1
# The steps of `soak`, in their order. A long run that is added later appends its target here.
SOAK := soak-difference soak-properties soak-simulators soak-kills soak-updates soak-changes soak-external-dns soak-gigabytes soak-fuzz

.PHONY: help serve test format lint unit tidy deny fuzz peers bench soak $(SOAK) clean

help:
	@echo 'make serve   build Dunlin and serve the example zones on 127.0.0.1:5300'
	@echo 'make test    everything a change must pass; sets up what it needs (25 minutes at most on 2 cores)'
	@echo 'make bench   Dunlin beside other servers, in alternating rounds (SCALE=small is a short run)'
	@echo 'make soak    the long runs: every combination of odd zones beside the peers, fuzzing'
	@echo 'make peers   the other servers and clients only, into peers/'
	@echo 'make format lint unit tidy deny fuzz   single steps of make test'
	@echo 'make clean   removes target/ and peers/'

serve:
	$(CARGO) build --release --bin dunlin
	exec target/release/dunlin serve --listen 127.0.0.1:5300 --zones examples/zones

test: peers format lint unit deny fuzz
	@echo 'make test: all passed'

peers:
	scripts/peers

format:
	$(CARGO) fmt --all -- --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml -- --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# `tidy`, the rules of the house, is one of the workspace's tests. The cases of properties are the same in each run, so that a
# change answers for itself alone; `soak-properties` and whoever types `cargo test` draw others.
unit: export PROPTEST_RNG_SEED ?= 1
unit: export PROPTEST_DISABLE_FAILURE_PERSISTENCE = 1
unit: peers
	$(CARGO) test --workspace --locked --no-fail-fast

tidy:
	$(CARGO) test --package tidy --locked

deny: $(TOOLS)/bin/cargo-deny
	$(TOOLS)/bin/cargo-deny --locked check bans licenses sources

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --debug --root $(TOOLS)

fuzz:
	fuzz/run --seed $(FUZZ_SEED) $(FUZZ_SECONDS)

bench:
	benches/compare

soak: $(SOAK)
	@echo 'make soak: all passed'

soak-difference: peers
	$(CARGO) build --release --locked --bin dunlin
	DIFFERENCE_EVERY=$(SOAK_EVERY) DIFFERENCE_SEEDS=$(SOAK_SEEDS) \
	    $(CARGO) test --release --locked -p difference --test adversarial

soak-properties: export PROPTEST_DISABLE_FAILURE_PERSISTENCE = 1
soak-properties:
	for seed in $$(seq $(SOAK_SEEDS)); do \
	    export PROPTEST_RNG_SEED=$$seed && echo "properties, seed $$seed" && \
	    $(CARGO) test --release --locked -q -p cache -p image -p sim -p transfer -p zonefile \
	        --lib --test model --test parts --test spellings --test stored && \
	    $(CARGO) test --release --locked -q -p server --lib -- cutting edition || exit 1; \
	done

# Other seeds each time: a run that fails names its own.
soak-simulators:
	from=$$(date +%s) && echo "seeds from $$from on" && \
	    CHANGES_FROM=$$from CHANGES_SEEDS=$(SOAK_LIVES) $(CARGO) test --release --locked -p sim --test changes && \
	    LIVES_FROM=$$from LIVES_SEEDS=$(SOAK_LIVES) STEPS_FROM=$$from STEPS_SEEDS=20 $(CARGO) test --release --locked -p server --lib lives

soak-kills:
	DUNLIN_KILLS=$(SOAK_KILLS) $(CARGO) test --release --locked -p dunlin --test end_to_end crashes

soak-gigabytes:
	$(CARGO) build --release --locked --bin dunlin
	scripts/gigabytes target/release/dunlin

soak-updates: peers
	$(CARGO) build --release --locked --bin dunlin
	benches/updates/kill --kills $(SOAK_UPDATE_KILLS)

soak-changes:
	$(CARGO) build --release --locked --bin dunlin
	benches/updates/soak --minutes $(SOAK_MINUTES)
	benches/updates/soak --minutes $(SOAK_MINUTES) --beside 65000

soak-external-dns: peers
	$(CARGO) build --release --locked --bin dunlin
	benches/updates/external-dns/check

soak-fuzz:
	fuzz/run $(SOAK_FUZZ_SECONDS)

clean:
	rm -rf target peers fuzz/target
