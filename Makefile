# Each target makes the virtual environment it needs; nothing has to be installed by hand but Python 3.10+ with venv.
PYTHON ?= python3
PLAIN := .venv
FULL := .venv-dev
# EXTRAS=all adds torch, which brings gigabytes of CUDA libraries unless pip finds a CPU build.
EXTRAS ?= most
READY := $(FULL)/ready-$(EXTRAS)
WORKERS ?= 2
# Options for pytest, for example PYTEST="-x tests/methods/test_eol.py"
PYTEST ?=
QUICK := not slow and not browser and not ray and not torch

.PHONY: help demo setup test quick lint bench docs clean

help:
	@echo "make demo    label a pile of digits and write a report (plain install)"
	@echo "make test    the whole test suite, with every extra but torch; EXTRAS=all adds torch"
	@echo "make quick   the tests that need no browser, no Ray, no torch and little time"
	@echo "make docs    build docs/methods.md, its pictures and the README's table anew"
	@echo "make lint    ruff and mypy"
	@echo "make bench   the speed benchmarks (minutes); EXTRAS=all compares with torch"
	@echo "make clean   remove the virtual environments and what was built"

demo: $(PLAIN)/ready
	$(PLAIN)/bin/handful demo

setup: $(READY)

test: $(READY)
	$(FULL)/bin/python -m pytest --numprocesses $(WORKERS) $(PYTEST)

quick: $(READY)
	$(FULL)/bin/python -m pytest --numprocesses $(WORKERS) -m "$(QUICK)" $(PYTEST)

docs: $(READY)
	$(FULL)/bin/python docs/build.py

lint: $(READY)
	$(FULL)/bin/ruff check .
	$(FULL)/bin/ruff format --check .
	$(FULL)/bin/mypy

bench: $(READY)
	$(FULL)/bin/python benchmarks/speed.py
	$(FULL)/bin/python benchmarks/methods.py
	$(FULL)/bin/python benchmarks/end_to_end.py
	$(FULL)/bin/python benchmarks/embed.py

$(PLAIN)/ready: pyproject.toml
	$(PYTHON) -m venv $(PLAIN)
	$(PLAIN)/bin/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FULL)
	$(FULL)/bin/pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),dev]" --constraint constraints.txt
	touch $@

clean:
	rm -rf $(PLAIN) $(FULL) build dist handful-demo .pytest_cache .hypothesis .mypy_cache .ruff_cache
