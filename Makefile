# Two commands do everything: `make demo` runs the main job, `make test` passes all tests.
# Each sets the project up first, in .venv, with uv where it is there and with pip where it is not.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LANES ?= 2

.PHONY: demo record test test-full test-faults check bench setup clean test-fast

demo: setup
	@$(BIN)/headrace demo

record: setup
	@$(BIN)/headrace demo --record docs/demo.svg

test: setup check
	@scripts/browser
	@LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-full: setup check
	@scripts/browser
	@HEADRACE_LAW_STREAMS=50 HEADRACE_LAW_PROCESSES=1 LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-faults: setup
	@HEADRACE_FAULT_SEEDS=$(or $(SEEDS),25) HEADRACE_FAULT_POINTS="$(POINTS)" $(BIN)/python -m pytest \
		$(if $(POINTS),tests/faults/test_kill.py -k every_point,tests/faults) $(ARGS)

test-fast: setup
	@$(BIN)/python -m pytest tests/unit tests/laws tests/docs

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
