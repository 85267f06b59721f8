# make run        the quickstart, from text to report
# make test       unit and integration tests; make test-all adds faults, servers and the quickstart
# make dashboard  the MLflow dashboard of the runs, on this machine only
# make cluster    a cluster on this machine, with S3 and MLflow, and a run on it, until Ctrl-C; make cluster-down deletes its data
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RECIPE ?= jobs/recipes/quickstart.yaml

.PHONY: run test test-all lint format env dashboard doctor cluster cluster-down clean

run: $(READY)
	$(BIN)/babelray run $(RECIPE)

test: $(READY) lint
	$(BIN)/python -m pytest -m "not slow and not fault"

test-all: $(READY) lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dashboard: $(READY)
	$(BIN)/babelray dashboard

doctor: $(READY)
	$(BIN)/babelray doctor

cluster: $(READY)
	$(BIN)/python tests/cluster/up.py

cluster-down: $(READY)
	$(BIN)/python tests/cluster/down.py

env: $(READY)

# torch first: DeepSpeed asks for it while it is being built. The constraints hold in build environments too.
$(READY): pyproject.toml constraints.txt
	@echo "Making $(VENV) and installing the pinned set into it: a few minutes, 2.5 GB."
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check pip setuptools wheel
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check torch numpy
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs
