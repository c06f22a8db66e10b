# Two commands do all the set-up: `make run` and `make test`. The rest are parts of them.

PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8080
# Not quiet: the lines that pip prints are the progress of a step that takes up to a minute.
PIP := $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --require-hashes

.DEFAULT_GOAL := help
.PHONY: help run test check lint coverage e2e bench format lock clean controlplane

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/runtime ## Serve the hooks on :8080 and show how to call them (PORT=… for another port)
	@exec $(BIN)/python -m hooks serve --port $(PORT) --log-format text

test: lint coverage e2e ## Everything, also end to end on a real control plane (the first time, builds it: 10 minutes)

check: lint ## Lint, types, import contracts, unit and contract tests: about a minute
	$(BIN)/python -m pytest -m "not e2e" -q

lint: .venv/dev ## Lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

coverage: .venv/dev ## Unit and contract tests, and how much of the code they reach
	$(BIN)/coverage run -m pytest -m "not e2e" -q --ignore=tests/test_simulation.py
	$(BIN)/python -m pytest tests/test_simulation.py -q
	$(BIN)/coverage report --fail-under=97

e2e: .venv/dev controlplane ## End to end: API server, etcd, controller manager, Prometheus, the hooks
	$(BIN)/python -m pytest -m e2e -v

controlplane: .venv/dev ## Build etcd, kube-apiserver, kube-controller-manager, kubectl, prometheus, promtool (once)
	@$(BIN)/python tools/controlplane/build.py

bench: .venv/dev ## Measure, as ratios against a yardstick of the same run
	@$(BIN)/python -m bench

format: .venv/dev ## Put the code in its usual form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: .venv/dev ## Pin the newest versions of all requirements, with hashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile $(LOCK) pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile $(LOCK) --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt
LOCK := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header

clean: ## Remove everything that make made here (the control plane stays in the user's cache folder)
	rm -rf .venv .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment: what the server needs, and on top of it what the checks and tests need.

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: Python 3.11 or newer is needed; name one with PYTHON=…" >&2; exit 1; }
	@echo "make: creating the environment .venv"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "make: python3 -m venv failed (Debian: apt-get install python3-venv)" >&2; exit 1; }

.venv/runtime: requirements.txt | .venv/bin/python
	@echo "make: installing the requirements of the server (about 20 seconds)"
	@$(PIP) -r requirements.txt
	@touch $@

.venv/dev: requirements-dev.txt | .venv/bin/python
	@echo "make: installing the requirements of the checks and tests (about a minute)"
	@$(PIP) -r requirements-dev.txt
	@touch $@
