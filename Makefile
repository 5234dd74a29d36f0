# Every target installs its requirements; only Python 3.11 or newer is required. ARGUMENTS="…" reaches the program that a target runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The generator of the documentation site has a separate environment, so that `make setup` stays small.
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
MODELS := models
# Tests, benchmarks and proofs also use the other local models.
PULL_ALL = @$(BIN)/python -m app.inference.embedding.weights $(MODELS) all
# Benchmarks that compute their own baselines with numpy: one thread, as in the service.
ONE_BLAS_THREAD := deletion routing scale transfer

.PHONY: help setup demo test test-unit check format bench prove docs console clean
.DEFAULT_GOAL := help

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The environment is installed again when the lock or the project file changes; an incomplete environment has no stamp.
# The lock names every package. pip must not resolve, because older versions then fail as soon as a package has a newer release.
$(STAMP): requirements.lock pyproject.toml carrel/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

setup: $(STAMP) ## create .venv and download the embedding model
	@$(BIN)/python -m app.inference.embedding.weights $(MODELS)

demo: setup ## start everything, upload two documents, ask three questions
	@$(BIN)/python -m app.cli demo $(ARGUMENTS)

test: setup ## run all tests; ARGUMENTS="--cov" lists the lines that no test runs
	$(PULL_ALL)
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations=10 $(ARGUMENTS)

test-unit: $(STAMP) ## run the tests that need no database, server or other process
	@$(BIN)/python -m pytest -q --unit -n 2 $(ARGUMENTS)

check: setup ## format, lint, types, import contracts, all tests: what CI runs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

format: $(STAMP) ## format the code and fix what ruff can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# The names of $(1) are in the first lines of the modules of $(2): "make bench NAME=scale".
names = awk -F '``: |[.]"*$$' 'FNR == 1 && sub("^\"\"\"``make $(1) NAME=", "", $$1) { printf "  %-18s%s\n", $$1, $$2 }' $(2)/*.py $(2)/*/__main__.py
run = $(call names,$(1),$(2)) 2>/dev/null | grep -q '^  $(3) ' || { echo 'make $(1) NAME=…, one of'; $(call names,$(1),$(2)) 2>/dev/null; exit 2; }; \
  $(BIN)/python -m $(2).$(subst -,_,$(3)) $(ARGUMENTS)

bench: setup ## measure ingestion and search; NAME=… another benchmark, NAME=? lists them
	$(PULL_ALL)
	@$(if $(filter $(NAME),$(ONE_BLAS_THREAD)),export OPENBLAS_NUM_THREADS=1;) $(call run,bench,benchmarks,$(subst _,-,$(or $(NAME),run)))

prove: setup ## run the proof NAME=…: try to break a promise of the service; NAME=? lists them
	$(PULL_ALL)
	@$(call run,prove,proofs,$(subst _,-,$(or $(NAME),?)))

$(DOCS_STAMP): requirements-docs.lock
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.lock
	@touch $(DOCS_STAMP)

docs: $(STAMP) $(DOCS_STAMP) ## build the documentation site into site/ and check its links
	@rm -rf site
	@$(BIN)/python -m scripts.docs.build_reference
	@$(DOCS_VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --doctree-dir $(DOCS_VENV)/doctrees docs site
	@$(BIN)/python -m scripts.docs.check_site site

# The bundle is committed, so only a change of console/ needs Node.
console: $(STAMP) ## build the console from console/ (needs Node 20)
	@$(BIN)/python -m scripts.build_console_types
	cd console && npm ci --ignore-scripts --no-audit --no-fund && npx tsc && node scripts/build.mjs

clean: ## remove the environment, caches and the demo's data
	rm -rf $(VENV) $(DOCS_VENV) site docs/reference/http-api console/node_modules .clients .carrel-demo* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage*
