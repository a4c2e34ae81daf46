# Each target sets up what it needs, once: `make demo` the library and its plots, the others the development tools too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PINS := constraints.txt pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)

.PHONY: help demo test test-slow lint format bench clean
help:
	@echo "make demo    a neural RDE on real data beside published results, pictures in demo/"
	@echo "make test    the quick tests"
	@echo "make bench   our speed beside the peers', in one run (keep the machine quiet)"
	@echo "make lint    formatting, lint and types;  make format  puts the formatting right"

demo: $(VENV)/library
	@$(BIN)/neuralrde demo --out demo

test: $(VENV)/development
	@$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(VENV)/development
	@$(BIN)/python -m pytest -m slow

bench: $(VENV)/development
	@$(BIN)/python -m benchmarks

lint: $(VENV)/development
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/pyright

format: $(VENV)/development
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build demo src/*.egg-info

# Made once, and again when the pins, the dependencies or the kernel's source change.
$(VENV)/library: $(PINS)
	@echo "Setting up $(VENV): jax, equinox, diffrax and the compiled kernel (a minute or two, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt setuptools wheel numpy jaxlib
	@$(PIP) install -c constraints.txt --no-build-isolation -e ".[plot]"
	@touch $@

# torch comes first and pinned, so that nothing pulls another build of it; iisignature builds against our numpy.
$(VENV)/development: $(VENV)/library
	@echo "Adding the development tools: test oracles, benchmark peers, linters (a minute or two, once) ..."
	@$(PIP) install -c constraints.txt torch
	@$(PIP) install -c constraints.txt --no-build-isolation iisignature
	@$(PIP) install -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $@
