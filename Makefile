# On a fresh machine: `make demo` shows the product, `make test` proves it. Both install what they need into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTED := $(VENV)/.tested
JOBS ?= 2

.PHONY: help install demo test lint bench docs clean

help:
	@echo "make install   .venv with gpuyard and its extras"
	@echo "make demo      plan a training, design and verify its fabric, plan a service"
	@echo "make test      lint, types and tests"
	@echo "make lint      ruff and mypy alone"
	@echo "make bench     measurements, side by side"
	@echo "make docs      the documentation, into site/"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,fit]'
	@touch $@

demo: install
	$(BIN)/gpuyard check examples/pretraining.yaml
	@mkdir -p build
	$(BIN)/gpuyard plan examples/pretraining.yaml --html build/plan.html
	$(BIN)/gpuyard fabric design --gpus 1024 --switch qfx5240-64od -o build/fabric.json
	$(BIN)/gpuyard fabric verify build/fabric.json --html build/fabric.html
	$(BIN)/gpuyard plan examples/inference.yaml --html build/inference.html

lint: install
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy

# What only tests need, so that a first look installs less.
$(TESTED): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gcp,ray]'
	@touch $@

test: lint $(TESTED)
	$(BIN)/pytest -n $(JOBS)

bench: install
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf $(VENV) site build .mypy_cache .ruff_cache .pytest_cache .hypothesis
