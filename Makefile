# On a fresh machine: `make demo` shows the product, `make test` proves it. Both install what they need into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTED := $(VENV)/.tested
MLFLOW := .venv-mlflow
XLA := .venv-xla
JOBS ?= 3

# Tests start Python hundreds of times; without cached bytecode every start compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo check test mlflow xla lint bench refit refit-serving docs sbom audit clean

help:
	@echo "make install   .venv with gpuyard and its extras"
	@echo "make demo      train, evaluate, select and serve a small model; plan and verify 1,024 GPUs"
	@echo "make check     lint, types and the fast tests"
	@echo "make test      lint, types and all tests"
	@echo "make mlflow    an MLflow for the tests of the registry's mirror, in .venv-mlflow"
	@echo "make xla       an environment with PyTorch/XLA, in .venv-xla"
	@echo "make lint      ruff and mypy alone"
	@echo "make bench     measurements, side by side"
	@echo "make refit     fit the performance models to the published tables in PUBLISHED=FOLDER"
	@echo "make docs      the documentation, into site/"
	@echo "make sbom      the installed packages as CycloneDX, into build/sbom.cdx.json"
	@echo "make audit     known vulnerabilities of the installed packages"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,fit,run,jax]'
	@touch $@

# From a file to a trained, evaluated, selected and served model on this machine, then a planned and verified cluster.
demo: install
	@mkdir -p build
	$(BIN)/gpuyard up examples/quickstart/workload.yaml --home build/quickstart --html build/quickstart.html
	$(BIN)/gpuyard serve --list --home build/quickstart
	$(BIN)/gpuyard serve --stop quickstart --home build/quickstart
	$(BIN)/gpuyard up examples/onprem-1024/workload.yaml --home build/onprem-1024 --html build/onprem-1024.html

lint: install
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy

# What only tests need, so that a first look installs less.
$(TESTED): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gcp,grpc,hf,ray,tensorboard,torch]'
	@touch $@

# A real MLflow for the tests of the registry's mirror: 824 MB with its own pins, so in a separate environment.
$(MLFLOW)/.installed: constraints.txt
	$(PYTHON) -m venv $(MLFLOW)
	$(MLFLOW)/bin/python -m pip install --quiet --disable-pip-version-check mlflow==3.17.2
	@touch $@

mlflow: $(MLFLOW)/.installed

# PyTorch/XLA needs its own PyTorch (7 GB); docs/guides/train.md says how it is used.
xla:
	$(PYTHON) -m venv $(XLA)
	$(XLA)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.9.1 torch_xla==2.9.0 safetensors -e '.[run]'

# Directories of mostly pure tests; the whole suite adds engines, servers, training runs and the lab.
FAST := tests/test_rules.py tests/test_errors.py tests/test_units.py tests/test_home.py tests/document tests/catalog \
	tests/workload tests/topology tests/blueprint tests/plan tests/fabric tests/api/test_public_api.py

check: lint
	$(BIN)/pytest -n $(JOBS) -m "not slow" $(FAST)

# One file per worker: module fixtures are built once.
test: lint $(TESTED)
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

bench: install
	@for script in $(filter-out bench/%_servers.py,$(wildcard bench/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# PUBLISHED: the folder with the published tables; GPUYARD_PUBLISHED by default. The same tables give the same constants.
PUBLISHED ?= $(GPUYARD_PUBLISHED)
refit: install
	@test -d "$(PUBLISHED)" || { echo "make refit PUBLISHED=FOLDER, with training_runs.csv, nccl_refs.csv and inference_runs.csv"; exit 2; }
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/fit_training.py $(PUBLISHED)/training_runs.csv $(PUBLISHED)/training_runs_2025h2.csv
	OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/accuracy_collectives.py $(PUBLISHED)/nccl_refs.csv $(PUBLISHED)/nccl_refs_2026.csv --fit
	$(MAKE) refit-serving PUBLISHED=$(PUBLISHED)

# Effects from the fitted table, margins of MLPerf servers from all three.
refit-serving: install
	$(BIN)/python tools/fit_inference.py $(PUBLISHED)/inference_runs.csv $(PUBLISHED)/inference_latency_mlperf.csv $(PUBLISHED)/inference_runs_2026.csv
	$(BIN)/python tools/inference_reference.py

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

sbom: install
	$(BIN)/python tools/sbom.py build/sbom.cdx.json
	@echo "build/sbom.cdx.json"

# pip-audit stays out of the environment that it looks at.
audit: install
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python tools/audit.py build/audit/bin/pip-audit

clean:
	rm -rf $(VENV) $(MLFLOW) $(XLA) site build .mypy_cache .ruff_cache .pytest_cache .hypothesis
