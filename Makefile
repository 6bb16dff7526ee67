# The front door. Every target sets up what it needs; DVC does the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Stages run `python`, so the environment must come first on PATH.
export PATH := $(abspath $(BIN)):$(PATH)
export PYTHONUNBUFFERED := 1
export TINKER_TELEMETRY := 0
STAMP := $(VENV)/.selfgen-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
SCALE ?= embedded

.PHONY: help setup params repro test test-slow lint bench report picture serve push pull repair verify clean compat compat-old engine-skyrl clean-room

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(STAMP):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt --editable '.[test,s3]'
	@rm -f $(VENV)/.selfgen-*
	@touch $@

setup: $(STAMP) ## Make the environment in .venv from constraints.txt

params: setup ## Compose params.yaml from conf/ (SCALE=embedded|local|spec)
	@selfgen compose scale=$(SCALE)

repro: setup ## Run the experiment: only what is not up to date
	@dvc repro

test: setup ## Run the tests
	@python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not compat and not slow" tests/e2e tests

test-slow: setup ## Run the few longest tests, which make test leaves out
	@python -m pytest -q -n 2 --dist loadfile -m "slow and not compat" tests

lint: setup ## Check format, style and types
	@ruff format --check .
	@ruff check .
	@mypy

bench: setup ## Measure speed against its limits
	@for script in bench/*.py; do echo "== $$script"; python $$script || exit 1; done

# The environment of `setup` with the older packages before its own: the two files of constraints differ in these alone.
OLD := .venv-tinker-0.25
compat-old: setup ## Run the whole pipeline, small, under tinker SDK 0.25
	@test -x $(OLD)/bin/python || { $(BIN)/python -m venv $(OLD) && $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(OLD)/lib/python*/site-packages)/newer.pth; }
	@$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --constraint constraints-tinker-0.25.txt tinker tinker-cookbook
	@PATH="$(abspath $(OLD))/bin:$$PATH" $(OLD)/bin/python -m tests.compat.old_sdk 0.25.0

# SkyRL wants Python 3.12, and starts its engine again through `uv run`: without a project, that is this environment.
SKYRL := .venv-skyrl
PYTHON312 ?= python3.12
MODEL ?= selfgen/embedded/models/policy
PORT ?= 8787
engine-skyrl: ## Serve MODEL, a folder, with SkyRL on the CPU (JAX), in an environment of its own
	@test -x $(SKYRL)/bin/python || "$(PYTHON312)" -m venv $(SKYRL)
	@test -f $(SKYRL)/.installed || { echo "installing into $(SKYRL) (7 GB, minutes)"; $(SKYRL)/bin/python -m pip install --quiet --disable-pip-version-check 'skyrl[tinker,jax]==0.4.0' aiohttp uv torch && touch $(SKYRL)/.installed; }
	@mkdir -p $(SKYRL)/state
	@echo "serving $(abspath $(MODEL)) on http://127.0.0.1:$(PORT); any TINKER_API_KEY that starts with tml- will do"
	@PATH="$(abspath $(SKYRL))/bin:$$PATH" VIRTUAL_ENV="$(abspath $(SKYRL))" JAX_PLATFORMS=cpu uv run --no-project --active -m skyrl.tinker.api \
	  --base-model "$(abspath $(MODEL))" --backend jax --backend-config '{"max_lora_adapters": 32, "max_lora_rank": 32}' \
	  --checkpoints-base "$(abspath $(SKYRL))/state" --database-url "sqlite:///$(abspath $(SKYRL))/state/tinker.db" --host 127.0.0.1 --port $(PORT)

compat: setup ## Run the stock cookbook recipes against the embedded server
	@python -m pytest -q -m compat tests/compat

report: setup ## Make the report again from what is there, and say where it is
	@dvc repro report

picture: setup ## Picture the report for the README: docs/report.png (needs chromium and chromedriver)
	@python -m tools.report_picture

serve: setup ## Start the embedded Tinker server on the shipped models
	@selfgen serve

push: setup ## Push artifacts and the run-cache to the default DVC remote
	@selfgen push

repair: setup ## Quarantine the tasks that a failed audit flagged
	@selfgen repair

verify: setup ## Recompute every published claim from the artifacts alone
	@selfgen verify

pull: setup ## Pull artifacts from the default DVC remote
	@dvc pull

clean-room: ## Everything from nothing in a temporary folder: environment, run, tests, share, verify elsewhere
	@PYTHON="$(PYTHON)" tools/clean_room.sh

clean: ## Remove the environment and caches of this checkout; data and results stay
	@rm -rf $(VENV) $(OLD) *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
