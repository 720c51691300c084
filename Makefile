# The two commands a newcomer needs: `make install` and `make test`.
# Both need only Python 3.11 or newer with pip and venv, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := src tests scripts benchmarks

# Where the environment forbids it, each process of each worker that the tests start, and there are
# hundreds of them, would compile all of Limpet anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install test format lint types layers servers unit chart mutants prove demo peers bench bench-gate bench-store clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with Limpet and everything needed to work on it

# Re-made only when what it depends on changes, so that later runs work offline.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit("Limpet needs Python 3.11 or newer; try: make PYTHON=python3.11 install" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

test: install lint types layers unit ## The whole check: format, lint, types, layers, tests

format: install ## Rewrite the sources in the house format
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lint: install
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: install
	$(BIN)/mypy $(SOURCES)

layers: install
	$(BIN)/lint-imports --no-cache

servers: install ## Get the servers that the tests need, where the system has none
	$(BIN)/python tests/servers/debian.py

unit: install servers
	$(BIN)/pytest -n 2 --dist worksteal

chart: install ## Write what is generated: docs/concepts/states.md and worker-settings.md
	$(BIN)/python scripts/state_chart.py
	$(BIN)/python scripts/settings_page.py

mutants: install servers ## Break SQL and Lua of each store on purpose; the contract suite must catch each
	$(BIN)/python scripts/mutants.py

prove: install servers ## The long proofs, at the sizes that the README promises
	$(BIN)/python scripts/prove.py

demo: install ## Kill a worker, watch the recovery, in half a minute
	$(BIN)/limpet demo

peers: install ## Install the systems that Limpet is measured beside
	PYTHONPATH=benchmarks $(BIN)/python -m peers.install

bench: install peers ## Measure Limpet on each store beside its peers; tables and a plot go to benchmarks/results/
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/sqlite_store.py

bench-gate: install ## Measure heavy jobs under a limit of memory, with the gate and without (root)
	$(BIN)/python benchmarks/gate.py

bench-store: install ## Measure the SQLite store alone; the table goes to benchmarks/results/
	$(BIN)/python benchmarks/sqlite_store.py

clean: ## Remove .venv, the peers and caches
	rm -rf $(VENV) .venv-peers benchmarks/peers/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
