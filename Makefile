# Each target sets up .venv by itself; a second call is quick.
PYTHON ?= python3
BIN := .venv/bin
SHELL := /bin/bash

.PHONY: demo test check bench results docs release clean

demo: .venv/user
	$(BIN)/ctlpp demo

# Neighbours run in one process (worksteal): what a file's tests share is made once
test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/user
	$(BIN)/ctlpp bench data
	$(BIN)/ctlpp bench train

# Tables, figures and the page, anew from results/runs
results: .venv/user
	$(BIN)/ctlpp reproduce all --out results --no-train --page docs/reproduction.md

# The site, with the report page over all committed runs: docs/_build/html/index.html
docs: .venv/dev
	mkdir -p docs/_build/report
	$(BIN)/ctlpp report results/runs --out docs/_build/report/report.html --force
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html docs docs/_build/html

# Source archive and wheel in dist/, and what a user does with the wheel, in an environment of its own
release: | .venv/bin/python
	rm -rf dist && $(BIN)/python -m venv dist/venv
	dist/venv/bin/python -m pip install -q --disable-pip-version-check build
	dist/venv/bin/python -m build -o dist
	dist/venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt dist/*.whl
	mkdir dist/try && cd dist/try && ../venv/bin/ctlpp demo
	cd dist/try && sed -n '/^```python$$/,/^```$$/{/^```/!p}' ../../docs/tutorials/first-crowd.md | ../venv/bin/python -

clean:
	rm -rf .venv demo docs/_build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ctlpp needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/user: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[cluster]'
	touch $@

.venv/dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ .venv/user
