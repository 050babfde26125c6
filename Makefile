# Every target runs from a bare Rust toolchain with a C compiler, unless it says otherwise. Servers are those of
# dev/services.sh.
CARGO ?= cargo
B ?= memory
G ?=
T ?=
SECS ?= 300
SEED ?=
export RUSTDOCFLAGS ?= -Dwarnings

.PHONY: verify fix test serve stop conform soak bench gates docs

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

# Everything, on real servers; installs what is missing where it may; ends with `N passed, N failed, N skipped`.
test:
	@./dev/tests.sh

# The real servers, until `make stop`: make serve G="redis cluster". Prints the variables to export.
serve:
	@./dev/services.sh up $(G)

stop:
	@./dev/services.sh down

# One store's conformance suite, on a server of its own: make conform B=redis T=waiting::
conform:
	@./dev/conform.sh $(B) $(T)

# Contenders in processes of their own, and the store's servers, killed and stopped at random: make soak B=sqlite SECS=60
soak:
	@./dev/services.sh run $(B) -- $(CARGO) run -p distlock-testbed --example soak -- $(B) $(SECS) $(SEED)

bench:
	$(CARGO) bench -p distlock-bench

# Installs the tools it needs.
gates:
	./dev/gates.sh

docs:
	UPDATE_DOCS=1 $(CARGO) test -p distlock --all-features --test generated_docs
	$(CARGO) doc --workspace --no-deps --all-features
