#!/bin/sh
# Runs a playbook of this checkout for make: play.sh PLAYBOOK [options of ansible-playbook].
# GPUFLEET_ACCEPT_EULA, GPUFLEET_ROOT and GPUFLEET_INVENTORY are make's variables of those names.
set -eu

cd "$(dirname "$0")/.."
playbook=$1
shift

# Named by hand, since Ansible ignores an ansible.cfg in a folder that others can write to.
ANSIBLE_CONFIG=$PWD/ansible.cfg
export ANSIBLE_CONFIG

case ${GPUFLEET_ACCEPT_EULA:-} in
    "") ;;
    yes | true | True | 1) set -- -e '{"cuda_accept_eula": true}' "$@" ;;
    no | false | False | 0) set -- -e '{"cuda_accept_eula": false}' "$@" ;;
    *)
        printf 'ACCEPT_EULA=%s is neither yes nor no.\n' "$GPUFLEET_ACCEPT_EULA" >&2
        exit 2
        ;;
esac

if [ -n "${GPUFLEET_INVENTORY:-}" ]; then
    set -- -i "$GPUFLEET_INVENTORY" "$@"
fi

if [ -n "${GPUFLEET_ROOT:-}" ]; then
    case $GPUFLEET_ROOT in
        /*) ;;
        *) GPUFLEET_ROOT=$PWD/$GPUFLEET_ROOT ;;
    esac
    # As JSON, so that blanks and quotes in the path survive.
    set -- -e "$(.venv/bin/python -c 'import json, sys; print(json.dumps({"cuda_root": sys.argv[1]}))' "$GPUFLEET_ROOT")" "$@"
    [ "$(id -u)" = 0 ] || set -- -e '{"cuda_become": false}' "$@"
elif [ "$(id -u)" != 0 ] && [ -z "${GPUFLEET_INVENTORY:-}" ]; then
    # The example inventory is this machine: root is needed for /usr/local.
    if ! command -v sudo >/dev/null 2>&1; then
        printf 'Laying under /usr/local needs root, and there is no sudo here. Run as root, or name a folder of yours: make ... ROOT=%s/cuda\n' "$HOME" >&2
        exit 1
    fi
    sudo -n true 2>/dev/null || set -- --ask-become-pass "$@"
fi

summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
GPUFLEET_SUMMARY=$summary
export GPUFLEET_SUMMARY

status=0
.venv/bin/ansible-playbook "$playbook" "$@" || status=$?
if [ "$status" = 0 ] && [ -s "$summary" ]; then
    cat "$summary"
fi
exit "$status"
