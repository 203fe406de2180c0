# `make run` and `make test` do everything on a machine with python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help

# Without bytecode files, every start of ctxtop in a test compiles all its modules again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ctxtop needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Say which one to use: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python could not make $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@$(PIP) install --upgrade pip setuptools -c constraints.txt

# One stamp a set of packages, so that an install happens again only when what it reads changed:
# the strict kind of editable install sees edits at once, but a new file only when made again.
# (The other kind loses to a folder that is called ctxtop where PYTHONPATH names it.)
FOLDERS := $(shell find core collectors tui -type d -not -name __pycache__)
$(VENV)/.run: pyproject.toml constraints.txt $(FOLDERS) | $(BIN)/python
	$(PIP) install -c constraints.txt --config-settings editable_mode=strict -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) install -c constraints.txt --group test
	@touch $@

$(VENV)/.check: $(VENV)/.test
	$(PIP) install -c constraints.txt --group check --group screenshots
	@touch $@

$(VENV)/.client: $(VENV)/.test
	$(PIP) install -c constraints.txt --group client
	@touch $@

run: $(VENV)/.run ## Open the dashboard on Claude Code's folder
	@$(BIN)/ctxtop

demo: $(VENV)/.run ## Open the dashboard on data that ctxtop makes itself
	@$(BIN)/ctxtop demo

test: $(VENV)/.test ## Run the tests, on all cores
	$(BIN)/python -m pytest -n auto

test-client: $(VENV)/.client ## Compare ctxtop with the real client, without a network
	$(BIN)/python -m pytest tests/client

prove: $(VENV)/.client ## Prove every strategy, mode and step of a recovery on every session of the lab
	$(BIN)/python -m pytest --all-pairs $(addprefix tests/client/test_,strategies.py modes.py compacting.py recovery.py)

lint: $(VENV)/.check ## Format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check: lint ## Format, lint and types
	$(BIN)/mypy --strict
	$(BIN)/mypy --strict tests screenshots
	$(BIN)/pyright

prove-engine: $(VENV)/.test ## Tell over 10,000 stories of changed sessions, read as many odd transcripts
	@$(BIN)/python -m tests.prove_engine
	@$(BIN)/python -m tests.prove_reader
	@CTXTOP_PROVE=1 $(BIN)/python -m pytest -q -s $(addprefix tests/collectors/test_,histories.py kill.py places.py)

bench: $(VENV)/.test ## Print the benchmarks' figures
	@for script in $(filter-out %/bench_compaction.py,$(wildcard tests/bench/bench_*.py)); do echo "== $$script"; $(BIN)/python -m tests.bench.$$(basename $$script .py) || exit 1; done

bench-accuracy: $(VENV)/.test ## Print how right the numbers are on recorded sessions
	@for name in accuracy tokens forecast; do echo "== $$name"; $(BIN)/python -m tests.bench.bench_$$name || exit 1; done

bench-compaction: $(VENV)/.test ## Print what compaction frees and keeps, beside the client's and cozempic (installed for it)
	@$(BIN)/python -m tests.bench.bench_compaction

metrics: $(VENV)/.test ## Print the size of the code, its folders, its cycles
	@$(BIN)/python -m tests.metrics

screenshots: $(VENV)/.check ## Make the pictures and the recording again from the demo's data
	$(BIN)/python screenshots/make.py
	$(BIN)/python screenshots/record.py

clean: ## Remove what make made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help run demo test test-client prove prove-engine lint check bench bench-accuracy bench-compaction metrics screenshots clean
