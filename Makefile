# Every target is one line that calls the program. `make synth` and `make test` set up all they need.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
COUNT := 1000000
BIN := $(VENV)/bin
# A test that is stuck shows where, and fails, instead of taking CI's whole time.
STUCK := -o faulthandler_exit_on_timeout=true -o faulthandler_timeout
export PATH := $(CURDIR)/.tools/bin:$(PATH)

help: ## what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

$(VENV)/.run: requirements.lock pyproject.toml
	@sh scripts/setup.sh $(VENV) requirements.lock $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml
	@sh scripts/setup.sh $(VENV) requirements-dev.lock $@

setup: $(VENV)/.dev ## everything for developing, from the locks
synth: $(VENV)/.run ## environments/*.yaml to dist/
	@$(BIN)/paperclip-gitops synth $(ARGS)
	@$(BIN)/paperclip-gitops check
check: $(VENV)/.run ## the policies and schemas over dist/
	@$(BIN)/paperclip-gitops check $(ARGS)
diff: $(VENV)/.run ## what would change in the cluster, against git:HEAD
	@$(BIN)/paperclip-gitops diff $(ARGS)
test: $(VENV)/.dev ## the fast suite
	@[ -x .tools/bin/kubeconform ] || sh scripts/tools.sh || echo "test: going on without kubeconform" >&2
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not e2e" $(STUCK)=300 $(ARGS)
e2e: $(VENV)/.dev tools ## against a real control plane
	@$(BIN)/python -m pytest tests/e2e -m e2e -p no:xdist $(STUCK)=1800 $(ARGS)
bench: $(VENV)/.dev ## a table of figures and ratios
	@$(BIN)/python bench/run.py $(ARGS)
	@$(BIN)/python bench/linters.py $(ARGS)
	@$(BIN)/python bench/planted.py
	@$(BIN)/python -m bench.launcher $(ARGS)
	@$(BIN)/python -m bench.wake
faults: $(VENV)/.dev ## every figure of reliability, replayable by seed; COUNT histories
	@$(BIN)/python -m tests.faults.figures --histories $(COUNT) $(ARGS)
lint: $(VENV)/.dev ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy --no-error-summary && $(BIN)/lint-imports --no-cache
tools: $(VENV)/.run ## kubeconform, pinned, into .tools/bin
	@sh scripts/tools.sh
schema: $(VENV)/.run ## the JSON Schemas that editors read
	@$(BIN)/paperclip-gitops schema --write
docs: $(VENV)/.run ## docs/policies.md, docs/agent-config.md and described.json of the adapter, from what they are about
	@$(BIN)/paperclip-gitops explain --all --format markdown > docs/policies.md
	@$(BIN)/paperclip-launcher schema --as markdown > docs/agent-config.md
	@$(BIN)/paperclip-launcher adapter --write adapter
lock: ## new versions of every package, by hash
	@sh scripts/lock.sh

.PHONY: help setup synth check diff test e2e bench faults lint tools schema docs lock
