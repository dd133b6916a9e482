# Every target makes .venv if need be and installs only the extras it uses.
PYTHON ?= python3

VENV := .venv
PY := $(VENV)/bin/python
# Prints a line whenever a command has been silent for a few seconds.
ALIVE := $(PYTHON) .ci/alive.py
INSTALL = $(PY) -m pip install --disable-pip-version-check -c constraints.txt
BENCHMARKS := $(addprefix benchmarks/,train_step.py generate.py data.py search.py par.py supernet.py feedback.py trust.py steady_front.py sparse.py sparse_generation.py linear.py reversible.py retrieval.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help quickstart test stress lint check format bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

quickstart: $(VENV)/.has-core $(VENV)/.has-report  ## search for a model that fits this processor, train it, write a report
	@$(ALIVE) quickstart $(PY) examples/quickstart.py

test: $(VENV)/.has-test  ## run the tests, then print the ten slowest
	@$(ALIVE) tests $(PY) -m pytest

stress: $(VENV)/.has-test  ## run what is too long for every day: a hundred kills, several processes, whole products; before a release
	@SUBLAYER_KILLS=100 $(ALIVE) 'a hundred kills' $(PY) -m pytest tests/training/test_kill.py
	@$(ALIVE) 'long tests' $(PY) -m pytest -m stress

lint: $(VENV)/.has-test $(VENV)/.has-dev  ## check style, formatting and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	@$(ALIVE) types $(PY) -m pyright

check: lint test  ## everything that must pass before a commit: lint, then the tests

format: $(VENV)/.has-dev  ## format the sources
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format

bench: $(VENV)/.has-bench  ## compare speed with other libraries
	set -e; for benchmark in $(BENCHMARKS); do $(PY) $$benchmark; done

docs: $(VENV)/.has-core $(VENV)/.has-docs  ## generate the cards and build the site into site/
	$(PY) docs/cards.py
	$(PY) -m zensical build --strict --config-file mkdocs.yml

clean:  ## remove everything generated, .venv included
	rm -rf $(VENV) build dist site docs/cards .cache .hypothesis .pytest_cache .ruff_cache
	find src tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, $(PYTHON) is %d.%d. Try: make PYTHON=python3.12" % sys.version_info[:2])'
	@$(ALIVE) 'making $(VENV)' $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.has-core: $(VENV)/.made pyproject.toml constraints.txt
	@$(ALIVE) 'installing sublayer' $(INSTALL) -e .
	@touch $@

$(VENV)/.has-%: $(VENV)/.made pyproject.toml constraints.txt
	@$(ALIVE) 'installing sublayer[$*]' $(INSTALL) -e '.[$*]'
	@touch $@
