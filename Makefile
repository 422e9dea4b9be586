# The tasks of this project; `make` lists them. Everything that builds uses the committed Cargo.lock.
# They use the active Python environment; where none is active, .venv, which they make.

CARGO ?= cargo
ifneq ($(VIRTUAL_ENV)$(CONDA_PREFIX)$(PYTHON),)
PYTHON ?= python
ENVIRONMENT :=
COMMAND := orchestrace
else
PYTHON := .venv/bin/python
ENVIRONMENT := .venv/bin/python
COMMAND := .venv/bin/orchestrace
endif
# Tests and lints of Rust share the dependencies of the installed module, so that these are built once.
QUICK ?= --config .cargo/quick.toml
AS_INSTALLED = --release --locked $(QUICK)
CHECKED = $(AS_INSTALLED) --config .cargo/tests.toml
INSTALL = MATURIN_PEP517_ARGS="$(QUICK)" $(PYTHON) .ci/install.py
# What the tests of Python need; Rust and Python tests of one tree are the same tests every time.
EXTRAS = dev docs storage-tests browser-tests
comma := ,
PACKAGE_AND_EXTRAS = .[$(subst $() ,$(comma),$(EXTRAS))]
export PROPTEST_RNG_SEED ?= 1
# A process of tests for each core and one more, since tests wait for processes that they start for a seventh of their time;
# one takes up to 1 GB, hence no more than 8.
CORES := $(shell getconf _NPROCESSORS_ONLN)
PYTEST_PARALLEL ?= -n $(shell expr $(CORES) + 1) --maxprocesses 8 --dist worksteal
WHEEL ?= $(wildcard dist/*.whl)
WHEEL_TARGETS ?=
WHEEL_OPTIONS ?=
PYTHONS ?= $(PYTHON)
SDIST ?= $(wildcard dist/*.tar.gz)
FUZZ_SECONDS ?= 60
FUZZ_RUNS ?= 10000000
PART ?= 1/1
FUZZ_TARGETS ?=

STARTED := $(shell date +%s)
TOOK = @echo "make $@: $$(($$(date +%s) - $(STARTED))) s"

.DEFAULT_GOAL := help
.PHONY: help demo develop test test-rust test-python check style lint lint-rust lint-python gate gate-record site crates floors conformance golden fuzz nightly nightly-rust nightly-python nightly-fuzz
.PHONY: bench timings wheel wheels wheel-check sdist sdist-check sbom audit checksums clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/bin/python:
	python3 -m venv .venv

demo: $(ENVIRONMENT) ## Install the package and run `orchestrace demo`
	$(INSTALL) .
	$(COMMAND) demo

develop: $(ENVIRONMENT) ## Install the package again after a change: builds what the change touches
	$(INSTALL) --no-deps --no-build-isolation .
	$(TOOK)

test: $(ENVIRONMENT) ## Run all tests: Rust, then Python and doctests against a fresh install
	@# packages of Python are fetched while crates are compiled
	$(PYTHON) .ci/requirements.py $(EXTRAS) | $(PYTHON) -m pip install --quiet --disable-pip-version-check -r /dev/stdin & \
		packages=$$!; $(MAKE) --no-print-directory test-rust && wait $$packages
	$(MAKE) --no-print-directory test-python
	$(TOOK)

test-rust: ## Run the tests of Rust
	$(CARGO) test --workspace --tests $(CHECKED)

test-python: $(ENVIRONMENT) ## Install the package with what its tests need, run the tests of Python and all examples of documents
	$(INSTALL) '$(PACKAGE_AND_EXTRAS)'
	$(CARGO) test --workspace --doc $(AS_INSTALLED)
	$(PYTHON) -m pytest $(PYTEST_PARALLEL)

check: style ## Run what is quick, while you work: a quarter of all cases; no rates, processes, corpora, studies
	$(CARGO) test --workspace --tests --quiet $(CHECKED)
	$(INSTALL) '.[dev]'
	ORCHESTRACE_CASES=4 $(PYTHON) -m pytest --quiet $(PYTEST_PARALLEL) -m 'not (nightly or statistical or process or corpora or study or browser)'
	$(TOOK)

style: $(ENVIRONMENT) ## Check format, lints of Python, and that its imports go one way: seconds, nothing is built
	$(CARGO) fmt --check
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) .ci/rooms.py
	$(PYTHON) .ci/words.py

lint: style lint-rust lint-python ## Check lints of Rust, types and stubs as well (after `make test`, which installs the tools)

lint-rust: ## Check lints of Rust
	$(CARGO) clippy --workspace --all-targets $(CHECKED) -- -D warnings

lint-python: $(ENVIRONMENT) ## Check types, stubs, licences of crates
	$(PYTHON) -m mypy --strict
	$(PYTHON) -m mypy --strict --platform win32 --cache-dir .mypy_cache/win32 python/orchestrace
	$(PYTHON) -m mypy.stubtest orchestrace._core
	$(PYTHON) .ci/crates.py check

gate: $(ENVIRONMENT) ## Count the instructions of every verb; more than 3 % above .ci/instructions.json fails. Needs valgrind
	$(PYTHON) .ci/instructions.py check

gate-record: $(ENVIRONMENT) ## Write .ci/instructions.json anew, after a change that costs or saves instructions on purpose
	$(PYTHON) .ci/instructions.py record

site: $(ENVIRONMENT) ## Build the site of the documents into target/site, notebooks included; broken links and anchors fail
	$(INSTALL) '.[docs,notebooks]'
	$(PYTHON) .ci/site --notebooks
	$(TOOK)

crates: $(ENVIRONMENT) ## After a change of Cargo.lock: write licences of all crates and the notices of those in the wheel anew
	for manifest in Cargo.toml rust/fuzz/Cargo.toml benches/rust/Cargo.toml; do \
		$(CARGO) fetch --locked --manifest-path $$manifest || exit 1; \
	done
	$(PYTHON) .ci/crates.py write

floors: $(ENVIRONMENT) ## Try the package with the lowest versions that pyproject.toml allows (nightly; needs an index of packages)
	$(PYTHON) .ci/floors.py run

conformance: ## Run the plug-ins inside the trainers, TRAINERS (all); needs an index of packages and some gigabytes
	$(PYTHON) .ci/conformance.py $(TRAINERS)

golden: ## Rewrite the expected tables of data/importers and data/cases; read the diff before you commit it
	ORCHESTRACE_GOLDEN=write $(CARGO) test --locked -p orchestrace-core --lib -- inputs_give_the_expected inputs_of_cases_become
	git --no-pager diff --stat -- data

fuzz: $(ENVIRONMENT) ## Search for bytes that break the engine, FUZZ_SECONDS (60) for each of FUZZ_TARGETS (all); needs cargo-fuzz
	$(PYTHON) rust/fuzz/seeds.py
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_TARGETS="$(FUZZ_TARGETS)" $(PYTHON) rust/fuzz/run.py

nightly: nightly-rust nightly-python nightly-fuzz ## Run every case of all tests on examples drawn anew, then FUZZ_RUNS (10,000,000) executions of the fuzz targets
	$(TOOK)

nightly-rust: ## Run the tests of Rust on examples drawn anew
	ORCHESTRACE_NIGHTLY=1 PROPTEST_RNG_SEED= $(CARGO) test --workspace --tests $(CHECKED)

nightly-python: $(ENVIRONMENT) ## Run every case of the tests of Python, or PART (2/8: the second of eight) of them
	ORCHESTRACE_NIGHTLY=1 ORCHESTRACE_PART=$(PART) $(PYTHON) -m pytest -m 'nightly or not nightly' -s

nightly-fuzz: $(ENVIRONMENT) ## Run FUZZ_RUNS executions of the fuzz targets
	$(PYTHON) rust/fuzz/seeds.py
	FUZZ_RUNS=$(FUZZ_RUNS) FUZZ_TARGETS="$(FUZZ_TARGETS)" $(PYTHON) rust/fuzz/run.py

bench: ## Say how to measure; a number without its command is not published
	@echo "Benches are run one by one, on a quiet machine: see benches/README.md"

timings: ## Build from nothing and report the time of every crate
	rm -rf target/timings
	PYO3_BUILD_EXTENSION_MODULE=1 $(CARGO) build --workspace --release --locked --timings --target-dir target/timings
	@echo "see target/timings/cargo-timings/cargo-timing.html"

wheel: $(ENVIRONMENT) ## Build a wheel for this machine (profile dist: link-time optimization, slow to build)
	$(PYTHON) -m maturin build --profile dist --out dist

wheels: $(ENVIRONMENT) ## Build wheels for others into dist/: WHEEL_TARGETS (all that this system can; on Linux by zig)
	$(PYTHON) .ci/wheels.py build $(WHEEL_TARGETS)

wheel-check: $(ENVIRONMENT) ## Judge WHEEL (all of dist/), install it without a compiler into each of PYTHONS, run the demo there
	$(PYTHON) .ci/wheels.py check $(addprefix --python ,$(PYTHONS)) $(WHEEL_OPTIONS) $(WHEEL)

sdist: $(ENVIRONMENT) ## Write the source distribution, with all crates, into dist/
	$(PYTHON) .ci/sdist.py make

sdist-check: $(ENVIRONMENT) ## Build a wheel of the source distribution without a network: minutes
	$(PYTHON) .ci/sdist.py check $(SDIST)

sbom: $(ENVIRONMENT) ## Write the bill of materials of crates and Python packages into dist/ (after `make test`)
	$(PYTHON) .ci/sbom.py

audit: $(ENVIRONMENT) ## Ask for known holes in Python packages and, where cargo-deny is installed, in crates; needs a network
	$(PYTHON) -m pip_audit --progress-spinner off .
	if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check advisories; \
		else echo "cargo-deny is not installed: crates were not asked for (cargo install cargo-deny --locked)"; fi

checksums: ## Write SHA-256 sums of all files in dist/ to dist/SHA256SUMS
	cd dist && rm -f SHA256SUMS && sha256sum -- * > SHA256SUMS

clean: ## Remove what builds and tests leave behind
	$(CARGO) clean
	rm -rf dist orchestrace-demo .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find python tests benches -name __pycache__ -prune -exec rm -rf {} +
