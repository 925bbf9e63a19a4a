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

KERNELS := hatch_build.py $(wildcard src/handful/engines/kernels/*.[ch])

.PHONY: help demo kernels setup test test-slow quick lint hooks bench docs site wheel-smoke release pythons clean

help:
	@echo "make demo    label a pile of digits and write a report (plain install)"
	@echo "make kernels compile the kernels in C for this checkout; the other targets do it where they install"
	@echo "make test    the tests, with every extra but torch; EXTRAS=all adds torch"
	@echo "make test-slow  benchmark scripts, notebooks, screenshots: those that changed since they passed; RELEASE=1: all"
	@echo "make quick   the tests of the code alone: no pages, faults, browser, Ray or torch"
	@echo "make site    build the documentation into site/, which opens from disk"
	@echo "make docs    draw the pictures of the methods and write the stub of the estimators anew"
	@echo "make lint    ruff, mypy, import-linter and codespell; mypy needs torch: EXTRAS=all"
	@echo "make hooks   let git run these before each commit"
	@echo "make bench   the speed benchmarks (about an hour), and a page of all figures; EXTRAS=all compares with torch"
	@echo "make wheel-smoke  build the wheel, install it elsewhere without extras, and use it"
	@echo "make release      the same, and check the files that would be uploaded; they are in dist/"
	@echo "make pythons      the tests of the solver on the other versions of Python that are on this machine"
	@echo "make clean   remove the virtual environments and what was built"

demo: $(PLAIN)/ready
	$(PLAIN)/bin/handful demo

kernels:
	$(PYTHON) hatch_build.py

setup: $(READY)

test: $(READY)
	$(FULL)/bin/python -m pytest --numprocesses $(WORKERS) $(PYTEST)

test-slow: $(READY)
	$(FULL)/bin/python scripts/slow.py $(if $(RELEASE),--all) --numprocesses $(WORKERS) $(PYTEST)

quick: $(READY)
	$(FULL)/bin/python -m pytest --numprocesses $(WORKERS) -m "$(QUICK)" --ignore tests/faults --ignore tests/pages $(PYTEST)

docs: $(READY)
	$(FULL)/bin/python docs/toy.py
	$(FULL)/bin/python scripts/stubs.py

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(FULL)/bin/mkdocs build
	@echo "The site, to look at: $(CURDIR)/site/index.html"

lint: $(READY)
	$(FULL)/bin/ruff check .
	$(FULL)/bin/ruff format --check .
	$(FULL)/bin/mypy
	$(FULL)/bin/lint-imports --no-logo
	$(FULL)/bin/codespell

hooks: $(READY)
	$(FULL)/bin/pre-commit install

wheel-smoke: $(READY)
	$(FULL)/bin/python scripts/wheel_smoke.py

release: $(READY)
	rm -rf dist
	$(FULL)/bin/python scripts/wheel_smoke.py --keep
	$(FULL)/bin/twine check --strict dist/*

pythons:
	$(PYTHON) scripts/pythons.py

bench: $(READY)
	$(FULL)/bin/python benchmarks/speed.py
	$(FULL)/bin/python benchmarks/scaling.py
	$(FULL)/bin/python benchmarks/methods.py
	$(FULL)/bin/python benchmarks/end_to_end.py
	$(FULL)/bin/python benchmarks/embed.py
	$(FULL)/bin/python benchmarks/summary.py

$(PLAIN)/ready: pyproject.toml $(KERNELS)
	$(PYTHON) -m venv $(PLAIN)
	$(PLAIN)/bin/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(READY): pyproject.toml constraints.txt $(KERNELS)
	$(PYTHON) -m venv $(FULL)
	$(FULL)/bin/pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),dev]" --constraint constraints.txt
	touch $@

clean:
	rm -rf $(PLAIN) $(FULL) .venv-3.* build dist site handful-demo .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
