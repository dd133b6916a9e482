# Every target makes .venv if need be and installs only the extras it uses.
PYTHON ?= python3

VENV := .venv
PY := $(VENV)/bin/python
BENCHMARKS := $(addprefix benchmarks/,train_step.py generate.py data.py search.py par.py supernet.py feedback.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help quickstart test stress lint check format bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

quickstart: $(VENV)/.has-core $(VENV)/.has-report  ## search a model for this processor, train it, report
	$(PY) examples/quickstart.py

test: $(VENV)/.has-test  ## run the tests
	$(PY) -m pytest

stress: $(VENV)/.has-test  ## kill trainings a hundred times, and compare what they come to
	SUBLAYER_KILLS=100 $(PY) -m pytest tests/training/test_kill.py

lint: $(VENV)/.has-test $(VENV)/.has-dev  ## check style, format and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m pyright

check: lint test  ## what must pass before a commit: lint, then the tests

format: $(VENV)/.has-dev  ## rewrite the sources in the house format
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format

bench: $(VENV)/.has-bench  ## run the benchmarks beside their peers
	set -e; for benchmark in $(BENCHMARKS); do $(PY) $$benchmark; done

docs: $(VENV)/.has-core $(VENV)/.has-docs  ## generate the cards and build the site into site/
	$(PY) docs/cards.py
	$(PY) -m zensical build --strict --config-file mkdocs.yml

clean:  ## remove everything generated, .venv included
	rm -rf $(VENV) build dist site docs/cards .cache .hypothesis .pytest_cache .ruff_cache
	find src tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, $(PYTHON) is %d.%d. Try: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.has-core: $(VENV)/.made pyproject.toml constraints.txt
	$(PY) -m pip install -qq -c constraints.txt -e .
	@touch $@

$(VENV)/.has-%: $(VENV)/.made pyproject.toml constraints.txt
	$(PY) -m pip install -qq -c constraints.txt -e '.[$*]'
	@touch $@
