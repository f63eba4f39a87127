# make install   everything into .venv; Debian packages too, when run as root
# make demo      the whole life of a Flex-start cluster on this machine (root, Debian)
# make test      every test: the fast ones side by side, then real slurmctlds, which mostly wait
# make lint      ruff and mypy --strict
# make bench     the numbers in docs/operations.md

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.PHONY: install packages demo test lint bench clean

VENV := .venv
PYTHON ?= python3
PACKAGES := slurmctld slurmd slurm-client munge python3-venv mmdebstrap procps iproute2 util-linux \
	ca-certificates chromium
HOOKS := $(addprefix slurm_flex/,__init__.py hooks.py hook_site.py oneshot.py spool.py wake.py \
	folders.py)
STAMP := $(VENV)/.installed

install: packages $(STAMP)

$(STAMP): setup.cfg pyproject.toml | packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[emulator,test]'
	# SlurmUser can't write beside the code: without this a hook would compile itself each time.
	test ! -x /usr/bin/python3 || /usr/bin/python3 -m compileall -q $(HOOKS)
	touch $@

# Only what is missing, only as root, only where there is apt.
packages:
	@missing=()
	command -v dpkg-query >/dev/null || exit 0
	for package in $(PACKAGES); do
		dpkg-query --show --showformat '$${db:Status-Status}\n' "$$package" 2>/dev/null \
			| grep -qx installed || missing+=("$$package")
	done
	if (( $${#missing[@]} == 0 )); then exit 0; fi
	if (( EUID != 0 )); then
		echo "missing packages (install them as root): $${missing[*]}" >&2
		exit 0
	fi
	# Services that a package starts by itself have no business on a machine that tests.
	policy=/usr/sbin/policy-rc.d
	made=
	if [[ ! -e $$policy ]]; then
		printf '#!/bin/sh\nexit 101\n' >$$policy
		chmod 755 $$policy
		made=yes
	fi
	trap '[[ -z $$made ]] || rm -f '$$policy EXIT
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -qq --yes --no-install-recommends "$${missing[@]}" >/dev/null

demo: install
	$(VENV)/bin/slurm-flex demo $(DEMO_FLAGS)

# One pytest at the end would hide which half failed; both run, and the worse result counts.
test: install
	status=0
	$(VENV)/bin/pytest -n 2 --dist loadfile -m 'not cluster' $(TEST_FLAGS) || status=$$?
	$(VENV)/bin/pytest -n 4 --dist loadgroup -m cluster $(TEST_FLAGS) || status=$$?
	exit $$status

lint: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: install
	for script in bench/*.py; do $(VENV)/bin/python "$$script"; done

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
