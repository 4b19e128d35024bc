# Two commands: `make demo` and `make test`. They need python3 with pip, and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# deep-everything only depends on the others, and on every provider: the demo and the tests need neither.
PLUGINS := $(filter-out everything,$(sort $(patsubst plugins/%/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))))
EDITABLE := -e . $(foreach name,$(PLUGINS),-e plugins/$(name))
# What an older checkout installed here under other names would be found beside today's.
RENAMED := deep-core deep-mcp deep-memory
MANIFESTS := pyproject.toml constraints.txt requirements/run.txt requirements/dev.txt $(wildcard plugins/*/pyproject.toml)
# uv installs in 20 seconds what takes pip a minute: one from the PATH, or one that pip installs first. Where it fails, pip
# installs everything, and says what is wrong.
install = { $(or $(UV),$(BIN)/uv) pip install --quiet $(COMPILE) --python $(BIN)/python --constraint constraints.txt $(1) 2>/dev/null || \
	$(PIP) $(1); }
# All byte code at once, on every processor. For a single process it is cheaper to compile what it imports.
COMPILE ?= --compile-bytecode
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Every process of the tests writes byte code for the next one.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-nightly test-wheels wheels lint format docs bench bench-peers clean

demo: $(VENV)/.run
	@$(BIN)/deep demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not wheels and not exhaustive and not slow"

# With the slow tests and every combination, and with new random examples each time.
test-all: $(VENV)/.dev
	DEEP_TEST_PROFILE=ci $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not wheels"

# Draws 10,000 sequences and all examples, where CI draws 50 new ones, and kills the processes of 3,000 sessions: an hour
# of one processor.
test-nightly: $(VENV)/.dev
	DEEP_TEST_PROFILE=nightly $(BIN)/python -m pytest -q -n auto --dist worksteal $$(grep -rlE 'sequences\(|examples\(|nightly=' --include='test_*.py' tests plugins)

# Builds every wheel and installs it into fresh environments; .ci/run does this too.
test-wheels: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m wheels $$(grep -rl 'mark\.wheels' --include='test_*.py' tests plugins)

# Every distribution's wheel, into dist/: `pip install --find-links dist deep-everything`.
wheels: $(VENV)/.run
	rm -rf dist
	$(BIN)/python scripts/release.py wheels dist

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
	@echo "Installing into $(VENV)"
	@$(or $(UV),false) venv --quiet --seed --python $(PYTHON) $(VENV) 2>/dev/null || $(PYTHON) -m venv $(VENV)
	@[ -n "$(UV)" ] || $(PIP) uv || echo "Without uv, the installation takes a minute."

# Build tools first, then ours without isolation: ten isolated build environments would take a minute.
$(VENV)/.run: $(MANIFESTS) | $(BIN)/python
	@$(BIN)/python -m pip uninstall --quiet --yes $(RENAMED) 2>/dev/null
	@$(call install,-r requirements/run.txt)
	@$(call install,--no-build-isolation $(EDITABLE))
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@$(call install,-r requirements/dev.txt)
	@touch $@

clean:
	rm -rf $(VENV) dist build site .hypothesis .ruff_cache .pytest_cache
