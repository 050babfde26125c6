# Every target runs from a bare Rust toolchain with a C compiler, unless it says otherwise.
CARGO ?= cargo
B ?= memory
T ?=
export RUSTDOCFLAGS ?= -Dwarnings

.PHONY: verify fix test conform bench gates docs

# Read-only; no server, no network beyond crates.
verify:
	$(CARGO) fmt --all --check
	./dev/check_file_sizes.sh
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) clippy -p distlock-core -p distlock -p distlock-sql --all-targets -- -D warnings
	$(CARGO) test -p distlock-core -p distlock --all-features
	$(CARGO) test -p distlock-conformance --test memory
	$(CARGO) doc --workspace --no-deps --all-features --document-private-items

# The only target that rewrites files.
fix:
	$(CARGO) clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	UPDATE_DOCS=1 $(CARGO) test -p distlock --all-features --test generated_docs

# Everything; ends with `N passed, N failed, N skipped`.
test:
	@./dev/tests.sh

# One backend's conformance suite: make conform B=sqlite T=waiting::
conform:
ifeq ($(B),memory)
	CONFORMANCE_REQUIRE=1 $(CARGO) test -p distlock-conformance --test memory -- $(T)
else ifeq ($(B),sqlite)
	CONFORMANCE_REQUIRE=1 $(CARGO) test -p distlock-sql --features sqlite --test conformance -- $(T)
else
	@echo "no backend $(B); there are: memory sqlite"; exit 64
endif

bench:
	$(CARGO) bench -p distlock-bench

# Installs the tools it needs.
gates:
	./dev/gates.sh

docs:
	UPDATE_DOCS=1 $(CARGO) test -p distlock --all-features --test generated_docs
	$(CARGO) doc --workspace --no-deps --all-features
