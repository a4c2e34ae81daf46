# Each target sets up what it needs, once: `make demo` the library and its plots, the others the development tools too.
PYTHON ?= python3
VENV := .venv
# A path from elsewhere would put other sources before these.
unexport PYTHONPATH
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PINS := constraints.txt pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)

.PHONY: help demo test test-long test-docs test-slow test-lowest test-newest test-oracles fuzz sanitize lint format bench league \
    docs notebooks examples wheel clean
help:
	@echo "make demo    the closed form and a neural RDE on real data beside published results, pictures in demo/"
	@echo "make test    the quick tests, in one process per core"
	@echo "make test-long  the tests that take long: real servers, processes, Ray, a browser, and every model in every use"
	@echo "make test-docs  tests of the documentation's pages and of the examples"
	@echo "make test-lowest  the core's tests, with the lowest versions that pyproject.toml allows"
	@echo "make test-newest  the core's and the estimators' tests, with the newest versions of everything"
	@echo "make test-oracles  our readers beside aeon's, our classes under aeon's and sktime's checks, in environments of theirs"
	@echo "make fuzz    100,000 damaged and forged files for every reader and for models"
	@echo "make sanitize  the kernel under the address, undefined-behaviour and thread sanitizers"
	@echo "make bench   our speed beside the peers', in one run (keep the machine quiet)"
	@echo "make league  our classifiers beside aeon's Rockets on real data sets (an hour; can be interrupted)"
	@echo "make docs    the documentation as a site, in site/;  make examples  renews its pictures and numbers"
	@echo "make notebooks  notebooks of the pages that docs/notebooks.py names"
	@echo "make wheel   sdist and wheel in dist/, installed into an empty environment and tried"
	@echo "make lint    formatting, lint and types;  make format  puts the formatting right"

demo: $(VENV)/library
	@$(BIN)/python examples/demo.py demo

test: $(VENV)/development
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not long" $(PAGES:%=--ignore=%)

# Tests of one group, or one file, share a server, a cluster or trained models, so that one worker runs them all.
test-long: $(VENV)/development
	@$(BIN)/python -m pytest -n auto --dist loadgroup -m "long and not slow"

# They train the same models as a reader would, or rank all results, which takes minutes.
PAGES := tests/test_docs.py tests/test_examples.py tests/test_made_pages.py
test-docs: $(VENV)/development
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(PAGES)

test-slow: $(VENV)/development
	@$(BIN)/python -m pytest -m slow

fuzz: $(VENV)/development
	@$(BIN)/python -m tests.fuzz --inputs 100000 --seed 0

# About a minute on two cores; needs g++ alone.
sanitize:
	@tests/sanitize/run.sh

# The newest JAX, NumPy, pandas and scikit-learn that this Python can have, and warnings of what JAX will remove are
# errors. For the newest of all: make test-newest NEWEST_PYTHON=python3.14. JAX 0.12 ends a process for a flag of XLA's that
# tests/compiling.py sets, so there are none.
NEWEST := .venv-newest
NEWEST_PYTHON ?= $(PYTHON)
test-newest: $(NEWEST)/ready
	@$(NEWEST)/bin/python -m pip --disable-pip-version-check list | grep -E "^(jax|numpy|pandas|scikit-learn) "
	@XLA_FLAGS= $(NEWEST)/bin/python -m pytest -q -m "not slow and not long" -o filterwarnings=error::DeprecationWarning:neuralrde \
	    $(PEERS:%=--ignore=%) $(CORE) tests/estimators

$(NEWEST)/ready: pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)
	@echo "Setting up $(NEWEST): the newest versions of all dependencies ..."
	@rm -rf $(NEWEST) && $(NEWEST_PYTHON) -m venv $(NEWEST)
	@$(NEWEST)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade jax jaxlib 'setuptools>=77' wheel \
	    pytest pytest-xdist hypothesis beartype sympy
	@$(NEWEST)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade --no-build-isolation -e .
	@touch $@

# In an environment of its own, made anew when the dependencies change: every ">=" of pyproject.toml read as "==".
LOWEST := .venv-lowest
CORE := tests/signatures tests/solvers tests/fields tests/models
# They compare with other libraries, which have lowest versions of their own.
PEERS := tests/signatures/oracles.py tests/signatures/test_oracles.py tests/signatures/test_migration.py \
    tests/solvers/test_torchdiffeq.py
test-lowest: $(LOWEST)/ready
	@$(LOWEST)/bin/python -m pytest -q -m "not slow" $(PEERS:%=--ignore=%) $(CORE)

$(LOWEST)/ready: pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)
	@echo "Setting up $(LOWEST): the lowest versions of all dependencies ..."
	@rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	@$(PYTHON) -c 'import tomllib; print(*(d.replace(">=", "==") for d in \
	    tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")' > $(LOWEST)/lowest.txt
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check --quiet install -r $(LOWEST)/lowest.txt \
	    'setuptools>=77' wheel pytest hypothesis beartype sympy
	@$(LOWEST)/bin/python -m pip --disable-pip-version-check --quiet install -c $(LOWEST)/lowest.txt \
	    --no-build-isolation --no-deps -e .
	@touch $@

# aeon asks for an older NumPy than constraints.txt has, so it has an environment of its own; sktime another, because it
# asks for other versions than aeon.
ORACLES := .venv-oracles
SKTIME := .venv-sktime
test-oracles: $(ORACLES)/ready $(SKTIME)/ready
	@$(ORACLES)/bin/python -c "import aeon.datasets"
	@$(ORACLES)/bin/python -m pytest -k aeon tests/datasets
	@$(ORACLES)/bin/python -m pytest --noconftest tests/neighbours/test_aeon.py
	@$(SKTIME)/bin/python -m pytest --noconftest tests/neighbours/test_sktime.py

$(ORACLES)/ready: pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)
	@echo "Setting up $(ORACLES): aeon, and the library beside it ..."
	@rm -rf $(ORACLES) && $(PYTHON) -m venv $(ORACLES)
	@$(ORACLES)/bin/python -m pip --disable-pip-version-check --quiet install aeon==1.6.0 jaxlib 'setuptools>=77' wheel \
	    pytest hypothesis beartype
	@$(ORACLES)/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation -e .
	@touch $@

$(SKTIME)/ready: pyproject.toml setup.py $(wildcard src/neuralrde/signatures/kernel/*)
	@echo "Setting up $(SKTIME): sktime, and the library beside it ..."
	@rm -rf $(SKTIME) && $(PYTHON) -m venv $(SKTIME)
	@$(SKTIME)/bin/python -m pip --disable-pip-version-check --quiet install sktime==1.2.0 jaxlib 'setuptools>=77' wheel pytest
	@$(SKTIME)/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation -e .
	@touch $@

bench: $(VENV)/development
	@$(BIN)/python -m benchmarks

# The peers have an environment of their own, without the library. Runs that have a line in results/ are not repeated.
LEAGUE := .venv-league
league: $(VENV)/development $(LEAGUE)/ready
	@$(BIN)/python -m benchmarks league --damage none,dropped,missing,cut

$(LEAGUE)/ready:
	@echo "Setting up $(LEAGUE): aeon ..."
	@rm -rf $(LEAGUE) && $(PYTHON) -m venv $(LEAGUE)
	@$(LEAGUE)/bin/python -m pip --disable-pip-version-check --quiet install aeon==1.6.0 $$(grep ^torch== constraints.txt)
	@touch $@

docs: $(VENV)/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "Documentation: site/index.html"

# Notebooks of some pages; a test compares them with the pages and runs them.
notebooks:
	@$(PYTHON) docs/notebooks.py

# What the examples' pages show. Minutes; BIDMC's recordings must be there or are fetched.
examples: $(VENV)/development
	@$(BIN)/python examples/how_it_works.py docs/images
	@$(BIN)/python examples/order_matters.py docs/images > docs/measured/order_matters.txt
	@$(BIN)/python examples/heart_rate.py docs/images > docs/measured/heart_rate.txt
	@$(BIN)/python examples/igbm.py docs/images > docs/measured/igbm.txt

# On Linux, auditwheel finds the oldest C library that the kernel runs with, and says so in the wheel's name.
wheel: $(VENV)/release
	@rm -rf dist && $(BIN)/python -m build --outdir dist .
	@test $$(uname) != Linux || { PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl \
	    && rm dist/*-linux_*.whl; }
	@$(BIN)/python tests/smoke_wheel.py dist

lint: $(VENV)/development
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/pyright

format: $(VENV)/development
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(LOWEST) $(NEWEST) $(ORACLES) $(SKTIME) $(LEAGUE) build demo dist site src/*.egg-info

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

$(VENV)/release: $(VENV)/library
	@$(PIP) install -c constraints.txt --no-build-isolation -e ".[release]"
	@touch $@

$(VENV)/docs: $(VENV)/library
	@echo "Adding the documentation's tools (half a minute, once) ..."
	@$(PIP) install -c constraints.txt --no-build-isolation -e ".[docs]"
	@touch $@
