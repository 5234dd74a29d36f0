# make demo | make test | make check | make bench — each does its own set-up; only Python 3.11 or newer is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WEIGHTS := models/all-MiniLM-L6-v2

PROOFS := $(subst _,-,$(patsubst benchmarks/prove_%.py,%,$(wildcard benchmarks/prove_*.py)))

# COVERAGE="--cov --cov-report=term:skip-covered" lists the lines that no test runs, and takes a third longer. Seldom a
# run hangs with Python 3.11: traced code that greenlet's clean-up of an ended thread calls goes round in a circle.
COVERAGE ?=

.PHONY: demo test check format lint types contracts bench bench-load bench-scale bench-floor bench-steps bench-deletion bench-answers bench-memory bench-routing bench-planner bench-checkouts deadline-test bench-transfer rewriting quality sbom walls api-fuzz audit fairness-test kill-test upgrade-test torture swift-test door-tests prove setup clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    start everything, upload two documents, ask three questions"
	@echo "make test    the tests"
	@echo "make check   format, lint, types, import contracts, tests"
	@echo "make bench   measure ingestion and search (needs CARREL_EVAL_DATA)"
	@echo "make bench-scale     search of 1,000 to 1,000,000 chunks (needs CARREL_EVAL_DATA; ARGUMENTS=--quick for 100,000)"
	@echo "make bench-steps     where the time of a search goes inside the service"
	@echo "make bench-deletion  what others wait for while a tenant of 500,000 chunks is deleted (ARGUMENTS=--chunks N for less)"
	@echo "make bench-answers   what an answer's first token takes beyond retrieval and the bare model"
	@echo "make bench-memory    how soon an agent finds what it has noted"
	@echo "make bench-routing   what it costs to choose among 1,000 knowledge bases"
	@echo "make bench-planner   server CPU of a search beside embedding, SQL, HTTP and fusion"
	@echo "make bench-checkouts search and small documents beside another checkout, in turns (ARGUMENTS=--other FOLDER)"
	@echo "make deadline-test   agents' searches while model, embedder, reranker, database or source is slow or gone"
	@echo "make bench-transfer  a knowledge base of 100,000 chunks exported and imported elsewhere (ARGUMENTS=--chunks N for less)"
	@echo "make rewriting       what rewrites bring on conversations (needs CARREL_EVAL_DATA)"
	@echo "make walls           every operation and table with another tenant's ids, and the answer that unknown ids get"
	@echo "make api-fuzz        schemathesis over the whole API with every role"
	@echo "make sbom            the image's packages as CycloneDX, from the locks, into sbom.cdx.json"
	@echo "make audit           broken requirements, advisories about what is locked, newer releases"
	@echo "make fairness-test   what one document waits for behind 10,000 of another tenant"
	@echo "make torture         the torture set (needs CARREL_EVAL_DATA) and 3,000 hostile files"
	@echo "make door-tests      the clients people have, each in an environment of its own"
	@echo "make swift-test      the object store against OpenStack Swift, where it is installed"
	@echo "make upgrade-test    from the baseline's commit to this one while clients write and search (ARGUMENTS=--from COMMIT)"
	@echo "make prove NAME=x    one proof by its name: $(PROOFS)"
	@echo "make kill-test       kill -9, 204 times, in every stage of ingestion (about 15 minutes)"

# Installed anew when the lock or the project file changes; a half-made environment has no stamp. The lock names all that
# is needed: where pip resolves as well, older ones refuse what they find once something locked has a newer release.
$(STAMP): requirements.lock pyproject.toml carrel/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

setup: $(STAMP)
	@$(BIN)/python -m app.inference.embedding.weights $(WEIGHTS)

demo: setup
	@$(BIN)/python -m app.cli demo

test: setup
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations=10 $(COVERAGE)

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: setup
	@$(BIN)/mypy

contracts: setup
	@$(BIN)/lint-imports

check: lint types contracts test

bench: setup
	@$(BIN)/python -m benchmarks.run

bench-load: setup
	@$(BIN)/python -m benchmarks.load

bench-scale: setup
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale $(ARGUMENTS)

bench-floor: setup
	@$(BIN)/python -m benchmarks.search_floor

bench-steps: setup
	@$(BIN)/python -m benchmarks.search_steps

bench-deletion: setup
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.deletion $(ARGUMENTS)

bench-answers: setup
	@$(BIN)/python -m benchmarks.answers $(ARGUMENTS)

bench-memory: setup
	@$(BIN)/python -m benchmarks.agent_memory $(ARGUMENTS)

bench-routing: setup
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.routing $(ARGUMENTS)

bench-planner: setup
	@$(BIN)/python -m benchmarks.planner

# ARGUMENTS="--other FOLDER": a checkout that has its own .venv.
bench-checkouts: setup
	@$(BIN)/python -m benchmarks.checkouts $(ARGUMENTS)

deadline-test: setup
	@$(BIN)/python -m proofs.deadline $(ARGUMENTS)

bench-transfer: setup
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.transfer $(ARGUMENTS)

rewriting: setup
	@$(BIN)/python -m benchmarks.rewriting

quality: setup
	@$(BIN)/python -m benchmarks.quality --table

walls: setup
	@$(BIN)/python -m pytest -q tests/isolation
	@$(BIN)/python -m proofs.isolation.run --share 0.5 $(ARGUMENTS)

api-fuzz: setup
	@$(BIN)/python -m proofs.fuzz $(ARGUMENTS)

sbom: setup
	@$(BIN)/python scripts/build_sbom.py

audit: setup
	@$(BIN)/python -m proofs.audit $(ARGUMENTS)

fairness-test: setup
	@$(BIN)/python -m proofs.fairness

kill-test: setup
	@$(BIN)/python -m proofs.kill

upgrade-test: setup
	@$(BIN)/python -m proofs.upgrade $(ARGUMENTS)

# Clients that cannot be installed beside the service have environments of their own, below .doors.
door-tests: setup
	@PYTHON=$(BIN)/python ./scripts/door_environments.sh
	@DOOR_ENVIRONMENTS=.doors DOOR_PYTHONS=.doors/openai-1/bin/python:.doors/openai-2/bin/python \
	  $(BIN)/python -m pytest -q tests/clients/test_frameworks.py tests/api/openai/test_client.py

swift-test: setup
	@S3_SERVER=swift $(BIN)/python -m pytest -q tests/object_store

torture: setup
	@$(BIN)/python -m proofs.torture

# One proof by name: make prove NAME=memory runs proofs/memory.py.
prove: setup
	@test -n "$(NAME)" || { echo "make prove NAME=…: one of $(PROOFS)"; exit 2; }
	@$(BIN)/python -m benchmarks.prove_$(subst -,_,$(NAME)) $(ARGUMENTS)

clean:
	rm -rf $(VENV) .carrel-demo .mypy_cache .ruff_cache .pytest_cache .coverage*
