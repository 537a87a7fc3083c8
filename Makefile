# `make demo` and `make test` set up .venv by themselves and are quick when it is there.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench docs wheel clean

demo: .venv/.installed
	$(BIN)/matcha demo --output demo-out

test: lint
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/.installed-dev
	for name in first_call epoch propagate inference train; do $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python benchmarks/draw.py

docs: .venv/.installed-docs
	$(BIN)/mkdocs build --strict

# Builds the wheel and tries it as a stranger would: in an empty venv, outside the repository.
wheel: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	place=$$(mktemp -d) && $(PYTHON) -m venv $$place/venv \
	&& $$place/venv/bin/pip install --quiet -c constraints.txt dist/*.whl \
	&& cd $$place && venv/bin/matcha --version && venv/bin/matcha demo && ls matcha-demo \
	&& rm -rf $$place

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,docs]'
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf .venv dist build site demo-out .mypy_cache .ruff_cache .pytest_cache
