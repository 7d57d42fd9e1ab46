# Two commands do everything on a machine with Python >= 3.11 and (for the real Kafka and Spark) Java 17:
#   make demo    four producers beside each other while real brokers stall and die
#   make test    all tests
# Set-up (virtual environment from the lock, JVM jars) happens once and by itself.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AT_ONCE ?= 3
CHAOS_S ?= 3600
unexport PYTHONDONTWRITEBYTECODE  # else each process of tests compiles all of them again

.PHONY: help demo check own-tests test frameworks weekly lint types bench bench-faults bench-kip480 bench-gate bench-converge bench-spark chaos soak odd-entries matrix wheel release-check docs docs-serve docs-check lock clean setup $(VENV)/clients-newest

help:                  ## show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 16

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V). Set PYTHON=..." >&2; exit 2; }
	@echo "setup: virtual environment from requirements/dev.txt (a few minutes, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.ready  ## create the virtual environment, fetch the JVM jars, install programs (as root)
	@.ci/install-programs
	@if command -v java >/dev/null; then $(BIN)/python -m kafka_partition_events.jvm; fi

demo: setup            ## see real brokers stall and die under four producers (about 75 s on two cores); ends in demo-report.html
	@$(BIN)/kpe demo

check: lint            ## before each commit: style, types, and all tests of our own code, properties with few examples
	@$(MAKE) --no-print-directory --jobs 2 types own-tests

# What needs neither Kafka nor Spark, with a tenth of the examples of properties; the longest files first.
own-tests: $(VENV)/.ready
	@$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile few \
	  -m "not kafka and not spark and not weekly and not slow" \
	  tests/spec tests/property tests/conformance tests/unit

# Spark's files first, the others by name: those of small tests come last, so that all processes end at one time. All of Spark's
# share a process and a JVM, which warms up once.
test: setup $(VENV)/docs  ## run all tests: the demo's, then all others in three processes (AT_ONCE=1: in one)
	@$(BIN)/python -m tests.run --at-once $(AT_ONCE)

frameworks: setup $(VENV)/frameworks  ## the examples for FastAPI, gunicorn, Celery, Django, faust, ... with the real frameworks
	@$(BIN)/python -m pytest -m weekly tests/integration/test_frameworks.py

weekly: setup $(VENV)/frameworks  ## the tests that take minutes, or a machine of their own
	@$(BIN)/python -m pytest -m weekly

lint: $(VENV)/.ready   ## ruff: style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.ready  ## mypy --strict
	@$(BIN)/mypy

bench: setup           ## run the benchmarks; results go to benchmarks/results/
	@$(BIN)/python -m benchmarks

bench-faults: setup    ## faults on real brokers, beside other producers (three hours; ARGS="--fault frozen"); see docs/benchmarks.md
	@$(BIN)/python -m benchmarks.faults $(ARGS)

bench-kip480: setup    ## KIP-480 on real brokers, beside round robin and random (90 minutes); see docs/kip-480.md
	@$(BIN)/python -m benchmarks.kip480

bench-gate: setup      ## gated growth on real clusters: is a record missed? (40 minutes); see docs/gated-growth.md
	@$(BIN)/python -m benchmarks.gate

bench-converge: setup  ## one change under 1,000 - 10,000 simulated instances (10 minutes)
	@$(BIN)/python -m benchmarks.convergence

bench-spark: setup     ## the Spark jobs: partition column, what-if, fleet tables; see docs/spark-partition-column.md
	@$(BIN)/python -m benchmarks.spark

chaos: setup           ## everything that can go wrong at once, judged from outside (CHAOS_S=3600 CHAOS_SEED=42); see docs/reliability.md
	@$(BIN)/python -m tests.chaos --seconds $(CHAOS_S) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) $(ARGS)

soak: setup            ## an hour at 20,000 records/s with a fault a minute: does anything grow? (ARGS="--seconds 240 --seed 7")
	@$(BIN)/python -m tests.chaos.soak $(if $(ARGS),$(ARGS),--out benchmarks/results/soak)

odd-entries: setup      ## 100,000 mutated documents through all decoders
	@KPE_ODD_ENTRIES=$${KPE_ODD_ENTRIES:-100000} $(BIN)/python -m pytest tests/property/test_every_decoder.py -k thousand

# Packages that hide those of the virtual environment, with PYTHONPATH.
$(VENV)/%: requirements/%.txt $(VENV)/.ready
	@echo "setup: $* beside the virtual environment (a minute, once)"
	@rm -rf $@ && $(BIN)/python -m pip install --quiet --no-deps --require-hashes --target $@ -r $<

# Without hashes, each time anew: what has come out since the lock is what is to be tried.
$(VENV)/clients-newest: $(VENV)/.ready
	@rm -rf $@ && $(BIN)/python -m pip install --quiet --no-deps --target $@ \
	  $(shell sed -nE 's/^(confluent|kafka-python|aiokafka) = \[(.*)\]/\2/p' pyproject.toml)

matrix: setup          ## the tests on each supported version (three hours; ONLY=kafka-3.7: a row; ONLY=--help)
	@$(BIN)/python -m tests.matrix $(ONLY)

wheel: $(VENV)/.ready  ## build the wheel into dist/ and import it in a clean environment
	@$(BIN)/python -m tests.packaging.check_release build wheel

release-check: $(VENV)/.ready $(VENV)/release  ## what a release is made of, in fresh environments: package, extras, the README's commands, types, ...
	@PYTHONPATH=$(CURDIR):$(abspath $(VENV)/release) PATH="$(abspath $(VENV)/release/bin):$$PATH" \
	  $(BIN)/python -m tests.packaging.check_release

BUILD_DOCS = NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(VENV)/docs $(BIN)/python -m mkdocs
docs: $(VENV)/docs     ## build the documentation as a site, build/site
	@$(BUILD_DOCS) build --quiet

docs-serve: $(VENV)/docs  ## show that site at 127.0.0.1:8000, anew after each change
	@$(BUILD_DOCS) serve --livereload --watch kafka_partition_events --watch README.md

docs-check: docs       ## look at each page of it in Chromium, wide and narrow, and with axe (needs Chromium and Node)
	@npm ci --silent --prefix tests/docs/browser
	@node tests/docs/browser/check.mjs build/site

lock:                  ## renew the hashed requirements (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --constraint requirements/constraints.txt --no-header --no-annotate \
	  --upgrade --quiet --output-file requirements/dev.txt
	uv pip compile --group docs --universal --python-version 3.11 --generate-hashes \
	  --constraint requirements/dev.txt --no-header --no-annotate \
	  --upgrade --quiet --output-file requirements/docs.txt
	uv pip compile --group frameworks --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --upgrade --quiet --output-file requirements/frameworks.txt
	uv pip compile --group pyproject.toml:release --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --upgrade --quiet --output-file requirements/release.txt

clean:                 ## remove what the other targets made
	rm -rf $(VENV) dist build tests/docs/browser/node_modules demo-out demo-report.html fleet-report.html .mypy_cache .ruff_cache .hypothesis .coverage*
