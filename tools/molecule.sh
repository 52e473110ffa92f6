#!/bin/sh
# Every molecule scenario on this machine. With no host matched Molecule would be green, so that is made an error.
set -eu

cd "$(dirname "$0")/.."
ANSIBLE_HOST_PATTERN_MISMATCH=error
ANSIBLE_CONFIG=$PWD/ansible.cfg
export ANSIBLE_HOST_PATTERN_MISMATCH ANSIBLE_CONFIG
PATH=$PWD/.venv/bin:$PATH
export PATH
exec molecule test --all "$@"
