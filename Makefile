# Two commands do everything: `make demo` runs the main job, `make test` passes all tests.
# Each sets the project up first, in .venv, with uv where it is there and with pip where it is not.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARCHIVE := $(VENV)/spark.jsa
LANES ?= 2

.PHONY: demo record test test-full test-faults check bench setup clean test-fast prepared browser

demo: setup
	@$(BIN)/headrace demo

record: setup
	@$(BIN)/headrace demo --record docs/demo.svg

test: prepared
	@LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-full: prepared
	@HEADRACE_LAW_STREAMS=50 HEADRACE_LAW_PROCESSES=1 LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-faults: setup
	@HEADRACE_FAULT_SEEDS=$(or $(SEEDS),25) HEADRACE_FAULT_POINTS="$(POINTS)" $(BIN)/python -m pytest \
		$(if $(POINTS),tests/faults/test_kill.py -k every_point,tests/faults) $(ARGS)

test-fast: setup
	@$(BIN)/python -m pytest tests/unit tests/contracts tests/laws tests/docs

# Side by side: what tests need, and what is quicker than they are.
prepared: setup
	@$(MAKE) --no-print-directory -j3 --output-sync check browser $(ARCHIVE)

browser:
	@scripts/browser

$(ARCHIVE): $(READY) tests/java.py
	@echo "java: keeping Spark's classes in an archive, so that tests start quickly" >&2
	@$(BIN)/python -m tests.java

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy

bench: setup
	@$(BIN)/headrace bench --write docs/benchmarks.md

setup: $(READY)

$(READY): requirements.lock pyproject.toml scripts/setup
	@PYTHON="$(PYTHON)" scripts/setup $(VENV)
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
