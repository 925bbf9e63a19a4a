# Each target makes the virtual environment it needs; nothing has to be installed by hand but Python 3.10+ with venv.
PYTHON ?= python3
PLAIN := .venv
FULL := .venv-dev

.PHONY: help demo test lint bench docs clean

help:
	@echo "make demo    label a pile of digits and write a report (plain install)"
	@echo "make test    the whole test suite, with every extra installed"
	@echo "make docs    build docs/methods.md, its pictures and the README's table anew"
	@echo "make lint    ruff and mypy"
	@echo "make bench   the speed benchmarks (minutes)"
	@echo "make clean   remove the virtual environments and what was built"

demo: $(PLAIN)/ready
	$(PLAIN)/bin/handful demo

test: $(FULL)/ready
	$(FULL)/bin/python -m pytest

docs: $(FULL)/ready
	$(FULL)/bin/python docs/build.py

lint: $(FULL)/ready
	$(FULL)/bin/ruff check .
	$(FULL)/bin/ruff format --check .
	$(FULL)/bin/mypy

bench: $(FULL)/ready
	$(FULL)/bin/python benchmarks/speed.py
	$(FULL)/bin/python benchmarks/methods.py
	$(FULL)/bin/python benchmarks/end_to_end.py
	$(FULL)/bin/python benchmarks/embed.py

$(PLAIN)/ready: pyproject.toml
	$(PYTHON) -m venv $(PLAIN)
	$(PLAIN)/bin/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(FULL)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FULL)
	$(FULL)/bin/pip install --quiet --disable-pip-version-check --editable ".[all,dev]" --constraint constraints.txt
	touch $@

clean:
	rm -rf $(PLAIN) $(FULL) build dist handful-demo .pytest_cache .hypothesis .mypy_cache .ruff_cache
