# Everything here works from a fresh checkout: what is missing is set up first (tools/setup.sh).
#
#   make site ACCEPT_EULA=yes                       this machine, as root or with sudo
#   make site ACCEPT_EULA=yes ROOT=$HOME/cuda       this machine, without root
#   make site INVENTORY=my-hosts.yml ARGS="-l gpu01"

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup setup-test site plan verify remove test test-unit test-integration lint sanity molecule cases bench build clean

# A word that the environment happens to hold is no consent and no folder: only the command line counts.
from_command_line = $(if $(filter command,$(firstword $(origin $(1)))),$($(1)))

accept_eula := $(call from_command_line,ACCEPT_EULA)
root := $(call from_command_line,ROOT)
inventory := $(call from_command_line,INVENTORY)
args := $(call from_command_line,ARGS)

export GPUFLEET_ROOT := $(root)
export GPUFLEET_ACCEPT_EULA := $(accept_eula)
export GPUFLEET_INVENTORY := $(inventory)

run = tools/setup.sh run && tools/play.sh
python = .venv/bin/python

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile
	@printf '\nVariables, on the command line: ACCEPT_EULA=yes, ROOT=folder, INVENTORY=file, ARGS="options of ansible-playbook or pytest",\nCASES=folder, PYTHON=interpreter (3.11 or newer).\n'

setup: ## make .venv with what running needs
	@tools/setup.sh run

setup-test:
	@tools/setup.sh test

site: ## bring the hosts of the inventory to what is declared (ACCEPT_EULA=yes)
	@$(run) playbooks/site.yml $(args)

plan: ## show what site would do, and why; nothing is changed or downloaded
	@$(run) playbooks/plan.yml $(args)

verify: ## prove every tree that was laid
	@$(run) playbooks/verify.yml $(args)

remove: ## remove the trees that were laid, and nothing else
	@$(run) playbooks/remove.yml $(args)

test: lint test-unit test-integration sanity molecule ## every check

test-unit: setup-test ## unit tests (ARGS="-k name")
	@$(python) -m pytest -q -n 2 tests/unit $(args)

test-integration: setup-test ## tests that lay real trees under a temporary root
	@$(python) -m pytest -q -n 2 tests/integration $(args)

lint: setup-test ## ruff, mypy, yamllint, ansible-lint, changelog
	@tools/lint.sh

sanity: setup-test ## ansible-test sanity on a clean copy
	@tools/sanity.sh

molecule: setup-test ## every molecule scenario
	@tools/molecule.sh $(args)

cases: setup-test ## recorded hosts with known answers (CASES=folder)
	@$(python) tests/cases/run.py $(if $(CASES),"$(CASES)",../shared/cases)

bench: setup-test ## figures against the alternatives, in one run
	@$(python) tests/benchmarks/bench.py $(args)

build: setup-test ## the collection as a tarball under build/
	@mkdir -p build && .venv/bin/ansible-galaxy collection build --force --output-path build .

clean: ## remove what make made here
	@rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis .ansible
