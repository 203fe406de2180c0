# `make run` and `make test` need only python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Every package is pinned with the hashes of all its files: another file of that version is refused.
LOCKED := $(PIP) install --require-hashes -r

.DEFAULT_GOAL := help

# Without bytecode files, every ctxtop that a test starts would compile all its modules.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ctxtop needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Choose another with: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python could not create $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@$(LOCKED) requirements/build.txt

# One stamp file for each set of packages: an install runs again only when its inputs change.
# A strict editable install sees edits at once, but new files only after it runs again. (The other
# mode loses to a folder named ctxtop on PYTHONPATH.)
FOLDERS := $(shell find core collectors tui -type d -not -name __pycache__)
# setuptools warns that its own folder of links must not be deleted; `make clean` knows.
$(VENV)/.run: pyproject.toml requirements/run.txt $(FOLDERS) | $(BIN)/python
	$(LOCKED) requirements/run.txt
	PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-index --no-build-isolation --config-settings editable_mode=strict -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run requirements/test.txt
	$(LOCKED) requirements/test.txt
	@touch $@

$(VENV)/.check: $(VENV)/.test requirements/check.txt
	$(LOCKED) requirements/check.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.test requirements/docs.txt
	$(LOCKED) requirements/docs.txt
	@touch $@

$(VENV)/.client: $(VENV)/.test requirements/client.txt
	$(LOCKED) requirements/client.txt
	@touch $@

# uv compiles for every platform and Python version at once. What is pinned stays unless it has to
# change, or UPGRADE=--upgrade is given.
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate $(UPGRADE)
WITH_RUN := $(COMPILE) -c requirements/run.txt --python-version 3.11

lock: $(BIN)/python ## Pin what pyproject.toml names, with hashes
	$(LOCKED) requirements/lock.txt
	$(COMPILE) --python-version 3.11 pyproject.toml -o requirements/run.txt
	$(WITH_RUN) --group test -o requirements/test.txt
	$(WITH_RUN) --group check --group screenshots -o requirements/check.txt
	$(WITH_RUN).5 --group docs -o requirements/docs.txt
	$(WITH_RUN) --group client -o requirements/client.txt
	echo pip setuptools | tr ' ' '\n' | $(WITH_RUN) - -o requirements/build.txt
	echo uv | $(WITH_RUN) - -o requirements/lock.txt

run: $(VENV)/.run ## Open the dashboard on Claude Code's folder
	@$(BIN)/ctxtop

demo: $(VENV)/.run ## Open the dashboard on generated data
	@$(BIN)/ctxtop demo

test: $(VENV)/.test ## Run the tests, on all cores
	$(BIN)/python -m pytest -n auto

test-client: $(VENV)/.client ## Compare ctxtop with the real client, without a network
	$(BIN)/python -m pytest tests/client

prove: $(VENV)/.client ## Test every strategy, mode, recovery step and cause of a lost cache with the real client
	$(BIN)/python -m pytest --all-pairs $(addprefix tests/client/test_,strategies.py modes.py compacting.py recovery.py project.py edits_of_the_lab.py cache_causes.py)

lint: $(VENV)/.check ## Check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check: lint types ## Check format, lint rules and types

types: $(VENV)/.check ## Check types
	$(BIN)/mypy --strict
	$(BIN)/mypy --strict tests screenshots
	$(BIN)/pyright

prove-engine: $(VENV)/.test ## Run over 10,000 fault and fuzz cases against compaction, the reader and the archive
	@$(BIN)/python -m tests.prove_engine
	@$(BIN)/python -m tests.prove_reader
	@$(BIN)/python -m tests.prove_archive
	@$(BIN)/python -m tests.prove_pauses
	@CTXTOP_PROVE=1 $(BIN)/python -m pytest -q -s $(addprefix tests/collectors/test_,histories.py kill.py places.py)

bench: $(VENV)/.test ## Run the benchmarks
	@for script in $(filter-out %/bench_compaction.py,$(wildcard tests/bench/bench_*.py)); do echo "== $$script"; $(BIN)/python -m tests.bench.$$(basename $$script .py) || exit 1; done

REV := 588b15f
compare: $(VENV)/.test ## Compare times and memory with those of REV=<commit>, in turn
	@$(BIN)/python -m tests.bench.compare $(REV)

bench-accuracy: $(VENV)/.test ## Compare the numbers with recorded sessions and other tools
	@for name in accuracy tokens breakdown forecast; do echo "== $$name"; $(BIN)/python -m tests.bench.bench_$$name || exit 1; done

bench-compaction: $(VENV)/.test ## Measure what compaction frees and keeps, beside the client and cozempic
	@$(BIN)/python -m tests.bench.bench_compaction

bench-cache: $(VENV)/.test ## Compare the causes of lost prompt caches with what the API said; replay pauses
	@$(BIN)/python -m tests.bench.bench_cache
	@$(BIN)/python -m tests.bench.bench_sums
	@$(BIN)/python -m tests.bench.bench_pauses

metrics: $(VENV)/.test ## Print the size and structure of the code
	@$(BIN)/python -m tests.metrics

texts: $(VENV)/.test ## Print every text of the program with its place, for proofreading
	@$(BIN)/python -m tests.texts

screenshots: $(VENV)/.check ## Redraw the pictures and the recording from the demo
	$(BIN)/python screenshots/make.py
	$(BIN)/python screenshots/record.py

docs: $(VENV)/.docs ## Write the command and settings references, build the site and check its links
	@$(BIN)/python -m tests.documentation write
	$(BIN)/zensical build --strict --clean
	@mkdir -p build/site/screenshots && cp screenshots/*.png build/site/screenshots/
	@$(BIN)/python -m tests.documentation check build/site

clean: ## Remove everything that make created
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help lock run demo test test-client prove prove-engine lint check types bench compare bench-accuracy bench-compaction bench-cache metrics texts screenshots docs clean
