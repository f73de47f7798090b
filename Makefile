# `make demo` runs the demo, `make test` runs all tests. Both first install into .venv, with uv if it is available.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARCHIVE := $(VENV)/spark.jsa
LANES ?= 2

.PHONY: demo record picture test test-full test-faults check bench bench-full bench-check bench-services wheel setup clean test-fast prepared \
	browser test-services services-up services-down services-status kafka-topic kafka-produce

demo: setup
	@$(BIN)/headrace demo

record: setup
	@$(BIN)/headrace demo --record docs/demo.svg

picture: setup browser
	@$(BIN)/python -m tests.surfaces.picture

test: prepared
	@LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-full: prepared
	@HEADRACE_LAW_STREAMS=50 HEADRACE_LAW_PROCESSES=1 LANES=$(LANES) $(BIN)/python -m tests.lanes $(ARGS)

test-faults: setup
	@HEADRACE_FAULT_SEEDS=$(or $(SEEDS),25) HEADRACE_FAULT_POINTS="$(POINTS)" $(BIN)/python -m pytest \
		$(if $(POINTS),tests/faults/test_kill.py -k every_point,tests/faults) $(ARGS)

test-fast: setup
	@HYPOTHESIS_PROFILE=few LANES=$(LANES) $(BIN)/python -m tests.lanes fast $(ARGS)

# With a real Kafka broker and a real PostgreSQL server, which the tests start and remove; those that cannot be installed
# here are skipped, with the reason.
test-services: setup
	@$(BIN)/python -m pytest tests/services $(ARGS)

services-up: setup
	@$(BIN)/python scripts/services up $(SERVICES)

services-down: setup
	@$(BIN)/python scripts/services down $(SERVICES)

services-status: setup
	@$(BIN)/python scripts/services status $(SERVICES)

kafka-topic: setup
	@$(BIN)/python scripts/services topic $(or $(TOPIC),$(error write make $@ TOPIC=orders)) $(PARTITIONS)

kafka-produce: setup
	@$(BIN)/python scripts/services produce $(or $(TOPIC),$(error write make $@ TOPIC=orders FILE=orders.ndjson)) $(FILE)

# In parallel: what the tests need, and the checks.
prepared: setup
	@$(MAKE) --no-print-directory -j3 --output-sync check browser $(ARCHIVE)

browser:
	@scripts/browser

$(ARCHIVE): $(READY) tests/java.py
	@echo "java: archiving Spark's classes, so that tests start faster" >&2
	@$(BIN)/python -m tests.java

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@MYPYPATH=scripts $(BIN)/mypy --scripts-are-modules scripts/golden scripts/jars scripts/met scripts/services scripts/structure

# Our own figures, in some minutes.
bench: setup
	@$(BIN)/python -m bench ours --events 1000000 --seconds 10 $(or $(ARGS),--only throughput --only late --only serving)

# Beside other engines, each in an environment of its own; below half an hour on two cores.
bench-full: setup
	@PYTHON="$(PYTHON)" scripts/contenders
	@$(BIN)/python -m bench full $(ARGS)

bench-check: setup
	@PYTHON="$(PYTHON)" scripts/contenders kafka
	@$(BIN)/python -m bench check $(ARGS)

# With a Kafka broker beside it, and the Kafka connectors of other engines where Maven has them.
bench-services: setup
	@PYTHON="$(PYTHON)" scripts/contenders kafka
	@$(BIN)/python -m bench full --only kafka --only kafka-freshness --only subscribers $(ARGS)

wheel: setup
	@PYTHON="$(PYTHON)" scripts/wheel $(VENV)

setup: $(READY)

$(READY): requirements.lock pyproject.toml scripts/setup
	@PYTHON="$(PYTHON)" scripts/setup $(VENV)
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
