# Floorhand. `make` alone lists what can be made.
SHELL := /bin/sh
PYTHON ?= python3
RUN := .venv/bin/python
ARGS ?=
BENCH ?= field
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-bench setup-model demo run test test-model check lock requirements crash soak bench clean

help:  ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## Install what running needs: Debian packages, .venv, pinned Python packages
	@tools/setup.sh run

setup-test:
	@tools/setup.sh test

setup-bench:
	@tools/setup.sh bench

setup-model:
	@tools/setup.sh model

demo: setup  ## Run the whole story unattended; ends with one JSON summary
	@$(RUN) -m demo $(ARGS)

run: setup  ## Start the same site and stay: you type or speak
	@$(RUN) -m demo --interactive $(ARGS)

test: setup-test  ## Set up and run the tests, two at a time (ARGS="-n 0 -k name" picks some, one at a time)
	@$(RUN) -m pytest $(ARGS)

test-model: setup-model  ## Try the planner with a real, small language model (fetches 130 MB once; minutes on one core)
	@$(RUN) -m pytest -m model -n 0 tests/model $(ARGS)

check: setup-test  ## Format, lint, types, import directions, tests
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) -m pytest

crash: setup-test  ## Kill the core everywhere, cut its power, and look what is lost or done twice (ARGS=--quick for a sample)
	@$(RUN) -m crash $(ARGS)

soak: setup-test  ## Load the whole site and kill it for ten minutes; writes build/soak/soak.json (ARGS="--minutes 60")
	@$(RUN) -m crash.soak $(ARGS)

bench: setup-bench  ## Measure (BENCH=field, ledger, sessions or agent); writes build/bench/<name>.json (ARGS=--quick for a short run)
	@$(RUN) -m bench.$(BENCH) $(ARGS)

requirements:  ## Which requirement rows and field cases have tests, which are not built yet
	@$(PYTHON) tools/requirements_report.py $(ARGS)

lock:  ## Pin the newest allowed versions again, with hashes
	@tools/lock.sh

clean:  ## Remove everything that was made here
	rm -rf .venv var/demo build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
