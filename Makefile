# Every target runs from a bare Rust toolchain with a C compiler, unless it says otherwise. Servers are those of
# dev/services.sh.
CARGO ?= cargo
B ?= memory
G ?=
T ?=
SECS ?= 1800
SEED ?=
F ?= all
IDLE ?= 600
CASES ?= 20000
# What `make soak` takes for B.
SOAKED = sqlite postgres mysql redis sentinel cluster redlock etcd etcd3 zk zk3
export RUSTDOCFLAGS ?= -Dwarnings

.PHONY: verify fix test serve stop conform faults faults-quick faults-record soak properties bench bench-quick bench-core gates api docs command

# Read-only; no server, no network beyond crates. Without protoc it leaves out, loudly, what needs that.
verify:
	$(CARGO) fmt --all --check
	./dev/check_file_sizes.sh
	scope=$$(./dev/scope.sh) && $(CARGO) clippy $$scope --all-targets -- -D warnings
	$(CARGO) clippy -p distlock-core -p distlock -p distlock-sql --all-targets -- -D warnings
	scope=$$(./dev/scope.sh distlock-core distlock) && $(CARGO) test $$scope
	SIMULATION_SEEDS=2000 $(CARGO) test -p distlock-conformance --test memory --test model --test simulation
	scope=$$(./dev/scope.sh) && $(CARGO) doc $$scope --no-deps --document-private-items

# The only target that rewrites files.
fix:
	scope=$$(./dev/scope.sh) && $(CARGO) clippy $$scope --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	UPDATE_DOCS=1 $(CARGO) test -p distlock --all-features --test generated_docs
	UPDATE_DOCS=1 $(CARGO) test -p distlock-cli --test cli -- reference

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

# Cells of the grid of faults, on real servers: make faults B=etcd F=F13 SEED=1; all stores without B, all faults without F.
faults:
	@SEED=$(SEED) ./dev/faults.sh run $(if $(filter file,$(origin B)),all,$(B)) $(F)

# Each fault on one store at least, and each store with six at least. All of it is a part of `make test` too.
faults-quick:
	@SEED=$(SEED) ./dev/faults.sh quick

# Keeps what `make faults` has found out, and writes the documentation's page anew.
faults-record:
	./dev/faults.sh summarise
	UPDATE_DOCS=1 $(CARGO) test -p distlock --all-features --test generated_docs

# Contenders in processes of their own, and the store's servers, network and clock, hurt at random, and then IDLE seconds
# of rest: make soak B=redis SECS=60 IDLE=10. It ends with `make properties`, some five minutes of one core for its 20000 cases.
soak:
	@[ -n "$(filter-out file,$(origin B))" ] || { echo "make soak B=STORE, one of: $(SOAKED)" >&2; exit 64; }
	@case "$(B)" in etcd*) program="-p distlock-etcd --all-features --example soak_etcd" ;; *) program="-p distlock-testbed --example soak" ;; esac; \
	SOAK_IDLE=$(IDLE) $(CARGO) run $$program -- $(B) $(SECS) $(SEED)
	@case "$(B)" in postgres | mysql) DISTLOCK_KEYS=1000000 ./dev/services.sh run $(B) -- \
		$(CARGO) test -p distlock-sql --features postgres,mysql --test servers -- many_keys ;; \
	sqlite) DISTLOCK_KEYS=1000000 $(CARGO) test -p distlock-sql --features sqlite --test sqlite -- one_key_after_another ;; esac
	@export DISTLOCK_ROUNDS=100; case "$(B)" in \
	redis) for test in b003 b055 b115; do $(CARGO) test -p distlock-redis --all-features --test scenarios -- $$test || exit; done ;; \
	zk) for test in b056 b126 b130 b133; do $(CARGO) test -p distlock-zk --all-features --test scenarios -- $$test || exit; done ;; \
	sqlite) $(CARGO) test -p distlock-sql --features sqlite --test sqlite -- b112 ;; esac
	$(MAKE) properties CASES=$(CASES)

# Random input for all that reads what comes from outside; the ordinary tests try 256 of each: make properties CASES=100000
properties:
	scope=$$(./dev/scope.sh) && PROPTEST_CASES=$(CASES) $(CARGO) test $$scope --lib --bins -- properties:: oracle::
	PROPTEST_CASES=$(CASES) $(CARGO) test -p distlock-core --all-features --test outside_input
	PROPTEST_CASES=$(CASES) $(CARGO) test -p distlock --all-features --test url_options

# All stores in one run, each beside its floor and other libraries: target/bench/report.html. Half an hour on a quiet machine.
bench:
	./dev/bench.sh full

# Four stores in five contests, in five minutes.
bench-quick:
	./dev/bench.sh quick

# The core by itself: time and allocations of what every lock pays.
bench-core:
	$(CARGO) bench -p distlock-bench

# Installs the tools it needs.
gates:
	./dev/gates.sh

# Writes docs/api anew, the listing of the public API that the gates compare with. Installs what it needs.
api:
	./dev/api.sh write

# The command with all stores, target/release/distlock; needs protoc. The Dockerfile calls this.
command:
	$(CARGO) build --release --locked -p distlock-cli --features full

# The generated pages anew, and all pages and crates as HTML: prints the path to begin at.
docs:
	@./dev/docs.sh
