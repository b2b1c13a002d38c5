# One list of tasks. `make demo` and `make test` set up what they need; CI calls the same words.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
READY  := $(VENV)/ready
JOBS   ?= auto

.PHONY: demo demo-real test test-load test-real check format bench clean nightly

demo: $(READY)  ## run the review loop, embedded: no key, no root, no bubblewrap
	@$(BIN)/partyctl run examples/review.py

demo-real: $(READY)  ## the same loop with the real Claude Code as the Writer, against a fake service on loopback
	@$(BIN)/python examples/real/demo.py

test: $(READY)  ## the tests, without the real provider CLIs
	@$(BIN)/pytest -n $(JOBS) --ignore=tests/real

test-load: $(READY)  ## the tests of full sizes and long waits: letters by the hundred thousand, peers killed by the hundred
	@$(BIN)/pytest -m load tests --ignore=tests/real

test-real: $(READY)  ## the tests that install and drive the real provider CLIs
	@$(BIN)/pytest tests/real

nightly: $(READY)  ## ten million frames of noise against the broker
	@PARTYCTL_FUZZ_FRAMES=10000000 $(BIN)/pytest tests/unit/partyctl_broker/test_fuzz.py

check: $(READY)  ## format, lint, types, imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## side by side, interleaved: medians and ratios
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .real

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "partyctl needs Python 3.11 or later")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV), once" >&2
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
