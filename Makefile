# On a fresh machine: `make demo` shows the product, `make test` proves it. Both install what they need into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTED := $(VENV)/.tested
MLFLOW := .venv-mlflow
XLA := .venv-xla
JOBS ?= 3

.PHONY: help install demo test mlflow xla lint bench docs clean

help:
	@echo "make install   .venv with gpuyard and its extras"
	@echo "make demo      train, judge, choose and serve a small model; plan and prove 1,024 GPUs"
	@echo "make test      lint, types and tests"
	@echo "make mlflow    an MLflow for the tests of the registry's mirror, in .venv-mlflow"
	@echo "make xla       an environment with PyTorch/XLA, in .venv-xla"
	@echo "make lint      ruff and mypy alone"
	@echo "make bench     measurements, side by side"
	@echo "make docs      the documentation, into site/"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,fit,run,jax]'
	@touch $@

# From a file to a trained, judged, chosen and served model on this machine, then the plan and proof of a large one.
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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gcp,ray,torch]'
	@touch $@

# A real MLflow for the tests of the registry's mirror: 824 MB, and its own pins, so in an environment of its own.
$(MLFLOW)/.installed: constraints.txt
	$(PYTHON) -m venv $(MLFLOW)
	$(MLFLOW)/bin/python -m pip install --quiet --disable-pip-version-check mlflow==3.17.2
	@touch $@

mlflow: $(MLFLOW)/.installed

# PyTorch/XLA needs a PyTorch of its own (7 GB); docs/guides/train.md says how it is used.
xla:
	$(PYTHON) -m venv $(XLA)
	$(XLA)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.9.1 torch_xla==2.9.0 safetensors -e '.[run]'

test: lint $(TESTED)
	$(BIN)/pytest -n $(JOBS)

bench: install
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf $(VENV) $(MLFLOW) $(XLA) site build .mypy_cache .ruff_cache .pytest_cache .hypothesis
