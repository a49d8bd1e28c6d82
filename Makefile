# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo-output

.PHONY: help demo test check bench results finetuning clean

help:
	@echo "make demo     train on the built-in reviews, score, and explain one review (in $(DEMO))"
	@echo "make test     run every test"
	@echo "make check    lint and type-check"
	@echo "make bench    measure, as ratios in one run"
	@echo "make results  train on the real data sets beside the project, into docs/results.md (an hour)"
	@echo "make finetuning  fine-tune a pretrained encoder on them (five hours)"
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

# The reviews are made by rules: they need little of the dropout that the noise of real texts calls for.
demo: $(VENV)/.installed
	$(BIN)/identiformer train demo:reviews --output $(DEMO)/model --overwrite \
		--epochs 20 --embedding-dropout 0.1 --hidden-dropout 0.1
	$(BIN)/identiformer explain $(DEMO)/model --json $(DEMO)/explanation.json \
		--html $(DEMO)/explanation.html --overwrite \
		--text "The soup was cold and the waiter was rude, but the dessert was wonderful."
	@echo "The model, its card, its metrics and a report lie in $(DEMO)/model: open $(DEMO)/model/report.html in a browser,"
	@echo "and $(DEMO)/explanation.html for the explanation (the same as JSON: $(DEMO)/explanation.json)."

# SciPy, which intervals are compared with, comes with the development tools.
bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/pooled_row.py
	$(BIN)/python benchmarks/identifiability.py
	$(BIN)/python benchmarks/serving.py

results: $(VENV)/.installed
	$(BIN)/python benchmarks/results.py

finetuning: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/finetuning.py

# The tests of one file stay together: what it sets up is set up once.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) $(DEMO)
