# make run        run the quickstart, from text to report
# make test       run unit and integration tests
# make test-fast  run only unit tests
# make test-all   run all tests, with faults, servers and the quickstart
# make docs       build the documentation site in build/site, without a network
# make docs-serve serve it on this machine only, and build it again when a page changes
# make dashboard  serve the MLflow dashboard of the runs, on this machine only
# make cluster    start a cluster on this machine, with S3 and MLflow, and a run on it, until Ctrl-C
# make cluster-down  end that cluster and delete its data
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
RECIPE ?= jobs/recipes/quickstart.yaml

.PHONY: run test test-fast test-all lint format env docs docs-serve dashboard doctor cluster cluster-down clean

run: $(READY)
	$(BIN)/babelray run $(RECIPE)

test: $(READY) lint
	$(PYTEST) -m "not slow and not fault"

# Tests that start neither Ray nor other processes.
test-fast: $(READY)
	$(PYTEST) -m "not integration and not slow and not fault"

# Tests that measure or kill run one after the other, on a machine that does nothing else.
test-all: test
	$(BIN)/python -m pytest -m "slow or fault"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=platform $(BIN)/mkdocs build --strict

docs-serve: $(READY)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=platform $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000 --watch platform/babelray

dashboard: $(READY)
	$(BIN)/babelray dashboard

doctor: $(READY)
	$(BIN)/babelray doctor

cluster: $(READY)
	$(BIN)/python tests/multinode/up.py

cluster-down: $(READY)
	$(BIN)/python tests/multinode/down.py

env: $(READY)

# torch first: DeepSpeed imports it while it is built. The constraints also apply to build environments.
$(READY): pyproject.toml constraints.txt
	@echo "Making $(VENV) and installing the pinned set into it: a few minutes, 2.5 GB."
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check pip setuptools wheel
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check torch numpy
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs
