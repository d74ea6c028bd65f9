# Two commands for a newcomer: `make demo` and `make test`. The others are for contributors.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

TORCH_VENV := .venv-torch
TORCH_NEXT_VENV := .venv-torch-next
LOWEST_VENV := .venv-lowest
INSTALLED_VENV := .venv-installed
SAMPLE := fixtures/synthetic/gpu_training.json.gz
NEW_ENOUGH := import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)
# Tests and checks start hundreds of programs; none should compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# What the build compiles, once more after a change; the time of it is that of this file.
COMPILED := $(VENV)/.compiled

.PHONY: help demo test test-torch test-torch-next test-lowest installed lint types contracts docs pages samples site check check-full advice laws
.PHONY: benchmark mutate fuzz-scan format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

demo: ## Install what running needs into demo/.venv and write a report from a fixture into demo/
	@$(PYTHON) -c '$(NEW_ENOUGH)'
	@$(PYTHON) -m venv demo/.venv
	@echo "Installing into demo/.venv ..."
	@demo/.venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check .
	demo/.venv/bin/traceanalyzer report $(SAMPLE)
	demo/.venv/bin/traceanalyzer report $(SAMPLE) -o demo/report.html -o demo/report.md -o demo/report.json
	@echo "Open demo/report.html in a browser, or let the command open it:"
	@echo "    demo/.venv/bin/traceanalyzer report $(SAMPLE) --open"

test: $(READY) $(COMPILED) ## Set up and run the tests
	$(BIN)/python -m pytest -n auto --dist worksteal

test-torch: $(TORCH_VENV)/.ready ## Set up with torch 2.13 and run the tests that need it
	$(TORCH_VENV)/bin/python -m pytest -m torch -n auto --dist worksteal $(shell grep -rl --include='test_*.py' 'mark\.torch' tests)

test-torch-next: $(TORCH_NEXT_VENV)/.ready ## Run the tests of writers and printed tables with torch 2.14 (5.5 GB: it has no CPU build)
	$(TORCH_NEXT_VENV)/bin/python -m pytest -m torch -n auto --dist worksteal $(TORCH_NEXT_TESTS)

test-lowest: $(LOWEST_VENV)/.ready $(COMPILED) ## Set up with the lowest version of each dependency and run tests of what uses them
	$(LOWEST_VENV)/bin/python -m pytest -n auto --dist worksteal -W ignore::DeprecationWarning $(LOWEST_TESTS) # old ones warn

installed: $(INSTALLED_VENV)/.ready $(READY) $(COMPILED) ## Install a wheel in a fresh environment and run what is documented, beside a clone
	rm -rf build/installed
	$(INSTALLED_VENV)/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/installed .
	$(INSTALLED_VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps build/installed/*.whl
	TRACEANALYZER_INSTALLED=$(INSTALLED_VENV)/bin $(BIN)/python -m pytest -n auto --dist worksteal tests/test_installed.py

# What differs from release to release of torch: its writers of traces, and the tables that it prints.
TORCH_NEXT_TESTS := tests/readers/kineto/test_writers_of_torch.py tests/formats/torch_table/test_with_torch.py

# What calls a dependency most: terminal (rich), commands (click), templates (jinja2), pictures (matplotlib), workbooks.
LOWEST_TESTS := tests/formats/test_terminal.py tests/formats/test_chart_files.py tests/formats/test_spreadsheet.py \
	tests/formats/html/test_html_page.py tests/formats/test_json_report.py tests/cli/test_report_output.py \
	$(addprefix tests/readers/kineto/test_,reader.py malformed.py values.py)

check: lint types contracts docs test ## Everything that CI checks

check-full: $(READY) $(COMPILED) ## The tests with the large counts, and what they reach (minutes to hours)
	TRACEANALYZER_FULL=1 $(BIN)/python -m pytest -n auto --dist worksteal --cov=traceanalyzer --cov-report=term

lint: $(READY) ## Style of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_docstrings.py

types: $(READY) ## Types of the package
	$(BIN)/mypy

contracts: $(READY) ## Who may import whom
	$(BIN)/lint-imports --no-logo

docs: pages ## Generated documentation, catalogs, fixtures and goldens are up to date
	$(BIN)/python scripts/docs.py --check
	$(BIN)/python scripts/locales.py --check
	$(BIN)/python scripts/make_fixtures.py --check
	$(BIN)/python scripts/goldens.py --check

pages: $(READY) $(COMPILED) ## The part of docs that no test checks, too: the page of the lab, sample reports
	$(BIN)/python scripts/lab_page.py --check
	$(BIN)/python scripts/samples.py --check

samples: $(READY) $(COMPILED) ## Write the sample reports and their pictures (needs Chromium)
	$(BIN)/python scripts/samples.py

site: $(READY) ## Build the documentation as a site with search, into build/site; fails if a link leads nowhere
	$(BIN)/python scripts/site.py
	@echo "Open it with: $(BIN)/python -m http.server --directory build/site"

advice: $(READY) $(COMPILED) ## Reports of real traces into build/, and what experts say of them (needs TRACEANALYZER_CORPUS)
	$(BIN)/python scripts/advise_corpus.py

laws: $(READY) $(COMPILED) ## What must hold of the report of any trace, on real ones (half an hour; TRACES=--part: a minute)
	$(BIN)/python scripts/check_laws.py $(TRACES)

benchmark: $(READY) $(COMPILED) ## Time and memory against json.load (a gigabyte of disk, some minutes)
	$(BIN)/python -m benchmarks.compare --mb 100 1000

mutate: $(READY) $(COMPILED) ## Damage 3000 inputs at random and run the tool on them (an hour; failures in build/mutation)
	$(BIN)/python -m tests.mutation --cases 3000 --seed 0 --jobs 2

SECONDS ?= 60
fuzz-scan: $(READY) ## Try the part in C with random events and sanitizers (SECONDS=60, SEED=7 for the same cases again)
	$(BIN)/python scripts/fuzz_scan.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) || [ $$? = 3 ] # 3: no compiler

format: $(READY) $(COMPILED) ## Format the code, rewrite generated documentation, catalogs and goldens
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python scripts/docs.py
	$(BIN)/python scripts/lab_page.py
	$(BIN)/python scripts/locales.py update
	$(BIN)/python scripts/goldens.py

# Torch comes alone and first: with anything else asked for, pip may choose a build with gigabytes of CUDA.
$(TORCH_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(TORCH_VENV)/bin/python -m pip install --quiet torch==2.13.0
	$(TORCH_VENV)/bin/python -m pip install --quiet --editable . --group dev
	@touch $@

$(TORCH_NEXT_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH_NEXT_VENV)
	$(TORCH_NEXT_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(TORCH_NEXT_VENV)/bin/python -m pip install --quiet torch==2.14.1
	$(TORCH_NEXT_VENV)/bin/python -m pip install --quiet --editable . --group dev
	@touch $@

# Neither editable nor with the groups of developers: what a user has, who also captures.
$(INSTALLED_VENV)/.ready: pyproject.toml
	rm -rf $(INSTALLED_VENV)
	$(PYTHON) -m venv $(INSTALLED_VENV)
	$(INSTALLED_VENV)/bin/python -m pip install --quiet torch==2.13.0
	$(INSTALLED_VENV)/bin/python -m pip install --quiet .
	@touch $@

$(LOWEST_VENV)/.ready: pyproject.toml scripts/lowest_versions.py
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST_VENV)/bin/python scripts/lowest_versions.py >$(LOWEST_VENV)/lowest.txt
	$(LOWEST_VENV)/bin/python -m pip install --quiet -c $(LOWEST_VENV)/lowest.txt --editable . --group lowest
	@touch $@

PAGES := traceanalyzer/rules/pages $(wildcard traceanalyzer/rules/pages/*.md)
$(COMPILED): $(wildcard traceanalyzer/locales/*/LC_MESSAGES/*.po) $(PAGES) traceanalyzer/readers/kineto/_scan.c hatch_build.py $(READY)
	$(BIN)/python hatch_build.py
	@touch $@

clean: ## Remove what the other targets made
	rm -rf $(VENV) $(TORCH_VENV) $(TORCH_NEXT_VENV) $(LOWEST_VENV) $(INSTALLED_VENV) demo dist build .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f traceanalyzer/readers/kineto/_scan*.so traceanalyzer/locales/*/LC_MESSAGES/*.json traceanalyzer/rules/pages.json
	find . -name __pycache__ -prune -exec rm -r {} +

$(READY): pyproject.toml
	$(PYTHON) -c '$(NEW_ENOUGH)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev --group site
	@touch $@
