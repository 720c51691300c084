# The two commands a newcomer needs: `make install` and `make test`.
# Both need only Python 3.11 or newer with pip and venv, and make.

# `make PYTHON=python3.13 test` works in an environment of that Python's own.
PYTHON ?= python3
ifeq ($(origin PYTHON),file)
# Without PYTHON=…, use the Python of .venv, if there is one.
PYTHON := $(if $(wildcard .venv/bin/python),.venv/bin/python,$(PYTHON))
endif
# A Python that is not on the PATH, or is an unused shim there, may be under pyenv.
override PYTHON := $(or $(shell $(PYTHON) -c 'import sys; print(sys.executable)' 2>/dev/null || \
  ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin/$(PYTHON) 2>/dev/null | sort -V | tail -1),$(PYTHON))
# A Python that is missing or too old has no environment; `install` names the reason.
VENV := $(or $(shell $(PYTHON) scripts/environment.py 2>/dev/null),.venv-none)
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := src tests scripts benchmarks

# Where the environment forbids bytecode, each of the hundreds of processes that the tests start would
# compile all of Limpet anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install check test format lint types layers servers suite pythons short chart mutants prove demo peers bench bench-gate bench-store clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with Limpet and everything needed to work on it

# Made again only when its prerequisites change, so that later runs work offline.
$(STAMP): pyproject.toml
	@$(PYTHON) scripts/environment.py >/dev/null
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

check: install servers lint types layers ## The inner loop: format, lint, types, layers, unit, contract on one store
	LIMPET_TEST_STORES=sqlite-file $(BIN)/pytest -n 2 --dist worksteal tests/architecture tests/unit tests/contract

test: install lint types layers suite pythons ## The whole check: format, lint, types, layers, tests, other Pythons

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

suite: install servers
	$(BIN)/python scripts/suite.py

pythons: install servers ## A short part of the tests on each other Python of this machine
	$(BIN)/python scripts/pythons.py

# For another Python: everything that needs no worker, a kill, a drain.
KILL := tests/lifecycle/test_kill.py::test_a_killed_guardian_or_tree_is_noticed_by_a_neighbour
DRAIN := tests/lifecycle/test_drain.py::test_a_second_signal_hands_over_at_once
short: install servers
	$(BIN)/pytest -q -n 2 --dist worksteal tests/unit "$(KILL)[namespace]" "$(KILL)[spawn]" "$(DRAIN)[non-root]"

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

clean: ## Remove every environment, the fetched servers, the peers and caches
	rm -rf .venv .venv-* .servers benchmarks/peers/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
