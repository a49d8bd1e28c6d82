# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo-output

.PHONY: help demo test check bench results clean

help:
	@echo "make demo     train on the built-in reviews, score, and explain one review (in $(DEMO))"
	@echo "make test     run every test"
	@echo "make check    lint and type-check"
	@echo "make clean    remove what the above made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "identiformer needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# torch first and pinned: an unpinned one can bring gigabytes of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) $(DEMO)
