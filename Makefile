# `make demo` and `make test` set up .venv by themselves and are quick when it is there.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test all paper kills browser coverage mutants lint bench gpu spark docs wheel lock clean

help: ## print the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile

demo: .venv/.installed ## train, adapt and write a report into demo-out/
	$(BIN)/matcha demo --output demo-out

test: lint ## lint, types and the tests that every change needs
	$(PYTEST)

all: test paper kills mutants ## every test that this machine can run
	if command -v chromium >/dev/null; then $(MAKE) browser; else echo "no Chromium: no test in a browser"; fi
	if command -v java >/dev/null; then $(MAKE) spark; else echo "no Java: no test on Spark"; fi
	if command -v nvidia-smi >/dev/null; then $(MAKE) gpu; else echo "no GPU: no test on one"; fi

# Each leaves a record of its last run, which is committed.
paper: .venv/.installed-dev ## the paper's tests that take long, into results/runs/paper.json
	$(PYTEST) -m paper --record results/runs/paper.json

kills: .venv/.installed-dev ## processes that are killed while they write, into results/runs/kills.json
	$(PYTEST) -m kills --record results/runs/kills.json

browser: .venv/.installed-dev ## the pages in Chromium, into results/runs/browser.json
	$(PYTEST) -m browser --record results/runs/browser.json

coverage: .venv/.installed-dev ## lines of src that the tests run, of the whole suite
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n 2 -m ''
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report

mutants: .venv/.installed-dev ## small changes that no test notices, into results/mutants.json
	$(BIN)/pip install --quiet -c constraints.txt -e '.[mutants]'
	$(BIN)/python tests/mutants.py results/mutants.json

lint: .venv/.installed-dev ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed-dev ## speed, as ratios within one run
	for name in whole first_call round propagate inference train; do $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python benchmarks/draw.py

# On a machine with a GPU: its own python3, which has torch for CUDA, runs the working tree.
gpu: ## what only a GPU can show, into results/gpu.json; and each program beside PyTorch
	PYTHONPATH=src:paper/src $(PYTHON) tests/gpu_checks.py results/gpu.json
	PYTHONPATH=src $(PYTHON) benchmarks/programs.py results/bench/programs-nvidia-h200.json

# Two executors on this machine; Java 17 is Debian's openjdk-17-jre-headless.
spark: .venv/.installed-dev ## mg.tables on Spark beside memory and DuckDB, into results/spark.json
	$(BIN)/pip install --quiet -c constraints.txt pyspark
	OMP_NUM_THREADS=1 $(BIN)/python tests/spark_checks.py results/spark.json

docs: .venv/.installed-docs ## the documentation, into site/ and site/paper/
	$(BIN)/mkdocs build --strict
	$(BIN)/mkdocs build --strict -f paper/mkdocs.yml -d ../site/paper

# Builds the wheel and tries it as a stranger would: in an empty venv, outside the repository.
wheel: .venv/.installed-dev ## build sdist and wheel and try the wheel in an empty venv
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	place=$$(mktemp -d) && $(PYTHON) -m venv $$place/venv \
	&& $$place/venv/bin/pip install --quiet -c constraints.txt "$$(ls dist/*.whl)[all]" \
	&& cd $$place && venv/bin/matcha --version && venv/bin/matcha demo && ls matcha-demo \
	&& rm -rf $$place

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[all]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,docs]' -e paper
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

# The newest versions that pyproject.toml allows, from an empty venv. A build of torch for one
# platform, such as 2.13.0+cpu, is written without its suffix, and what it brings along for CUDA is
# left out.
lock: ## write constraints.txt anew
	place=$$(mktemp -d) && $(PYTHON) -m venv $$place \
	&& $$place/bin/pip install --quiet torch \
	&& $$place/bin/pip install --quiet -e '.[dev,docs,mutants]' -e paper \
	&& { sed -n '/^#/p' constraints.txt; \
	     $$place/bin/pip freeze --exclude-editable | sed '/^#/d; /^nvidia-/d; /^cuda-/d; s/+[a-z0-9]*$$//' | sort -f; } \
	   > constraints.txt.new \
	&& ! grep -n '[@/]' constraints.txt.new \
	&& mv constraints.txt.new constraints.txt && rm -rf $$place

clean: ## remove what the targets made
	rm -rf .venv dist build site demo-out .mypy_cache .ruff_cache .pytest_cache
