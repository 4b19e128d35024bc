# Two commands: `make demo` and `make test`. Plain python3 and pip do; uv is used where it is installed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# deep-all only depends on the others, and on every provider: the demo and the tests need neither.
PLUGINS := $(filter-out all,$(sort $(patsubst plugins/%/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))))
EDITABLE := -e . $(foreach name,$(PLUGINS),-e plugins/$(name))
MANIFESTS := pyproject.toml constraints.txt requirements/run.txt requirements/dev.txt $(wildcard plugins/*/pyproject.toml)
ifdef UV
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt
else
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
endif

.PHONY: demo test test-all test-wheels lint format docs bench bench-peers clean

demo: $(VENV)/.run
	@$(BIN)/deep demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not wheels and not exhaustive"

# With every combination, and with new random examples each time.
test-all: $(VENV)/.dev
	DEEP_TEST_PROFILE=ci $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not wheels"

# Builds every wheel and installs it into fresh environments; .ci/run does this too.
test-wheels: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m wheels $$(grep -rl 'mark\.wheels' --include='test_*.py' tests plugins)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Installs the peers of benchmarks/peers.txt from the index, each into an environment of its own.
bench-peers: $(VENV)/.dev
	$(BIN)/python -m benchmarks --peers

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deep needs Python 3.11 or newer: make PYTHON=python3.12")'
ifdef UV
	$(UV) venv --quiet --python $(PYTHON) $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

# Build tools first, then ours without isolation: nine isolated build environments would take a minute.
$(VENV)/.run: $(MANIFESTS) | $(BIN)/python
	$(INSTALL) -r requirements/run.txt
	$(INSTALL) --no-build-isolation $(EDITABLE)
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	@touch $@

clean:
	rm -rf $(VENV) dist build site .hypothesis .ruff_cache .pytest_cache
