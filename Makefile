# Every target works as the first command in a fresh clone on a machine with Python 3.11 or newer, pip and venv.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= auto

.DELETE_ON_ERROR:
.PHONY: acceptance test check bench lock clean

# The environment is made beside its name and moved there only when it is whole.
.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

acceptance: .venv/installed
	$(BIN)/killpoint run --target reference --out acceptance

# The part of the matrix in which recovery itself is killed comes first; the whole of it is `make acceptance`.
test: .venv/installed check
	$(BIN)/killpoint run --scenario 'recovery*' --out build/acceptance
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed
	$(BIN)/python -m scenarios.bench

# Needs pip-tools (pip install pip-tools); run it after changing a bound in pyproject.toml.
lock:
	$(PYTHON) -m piptools compile --quiet --generate-hashes --strip-extras --allow-unsafe --all-build-deps --all-extras \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv acceptance
