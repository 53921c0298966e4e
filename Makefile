# Everything a developer does, each in one step. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help run test test-heavy lint bench format lock clean screenshots

# What is installed stays in use, whatever made it.
INSTALLED := $(if $(wildcard .venv/holdpoint-installed.json),.venv/bin/python)
SUPPORTED := $(INSTALLED) python3.11 python3.12 python3.13 python3 python
IN_RANGE  := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))

# A name on the PATH may be a shim that leads nowhere, so each candidate is asked, not just looked up.
PYTHON ?= $(or $(shell for name in $(SUPPORTED); do \
	$$name -c '$(IN_RANGE)' 2>/dev/null && echo $$name && break; done),$(error \
	Holdpoint needs Python 3.11, 3.12 or 3.13. Name yours: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11))

VENV := .venv/bin/python

help:
	@echo "make run      start Holdpoint with demonstration data       PORT=8001"
	@echo "make test     lint and all tests, on MariaDB and SQLite     ARGS=\"-k claim\""
	@echo "make test-heavy    the promises at full size, some 30 minutes    ONLY=\"1 2\""
	@echo "make bench    speed against its floors, some 12 minutes     ONLY=sweep ROWS=20000"
	@echo "make lint     style, types, migrations, deployment checks"
	@echo "make format   repair what lint can repair"
	@echo "make lock     pin the requirements anew                     ARGS=--upgrade"
	@echo "make screenshots   the pictures in docs/images, from the demonstration data"
	@echo "make clean    remove .venv and caches; data and .env stay"

run:
	@$(PYTHON) tools/install.py base
	@exec $(VENV) -m tools.run $(if $(PORT),--port $(PORT))

test:
	@$(PYTHON) -m tools.system
	@$(PYTHON) tools/install.py dev --mariadb-if-possible
	@$(VENV) -m tools.test $(ARGS)

test-heavy:
	@$(PYTHON) -m tools.system
	@$(PYTHON) tools/install.py dev --mariadb-if-possible
	@$(VENV) -m tools.heavy $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench:
	@$(PYTHON) -m tools.system
	@$(PYTHON) tools/install.py dev --mariadb-if-possible
	@$(VENV) -m bench $(if $(ONLY),--only $(ONLY)) $(if $(ROWS),--rows $(ROWS)) $(ARGS)

lint:
	@$(PYTHON) tools/install.py dev
	@$(VENV) -m tools.lint

format:
	@$(PYTHON) tools/install.py dev
	@$(VENV) -m ruff check --fix --exit-zero --quiet
	@$(VENV) -m ruff format

lock:
	@$(PYTHON) tools/install.py base
	@$(VENV) -m tools.lock $(ARGS)

screenshots:
	@$(PYTHON) tools/install.py dev
	@$(VENV) -m tools.screenshots

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache staticfiles dist build *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
