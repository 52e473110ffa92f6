#!/bin/sh
# Makes .venv with what running (argument: run) or testing (argument: test) needs, and the link that lets Ansible see this
# checkout as a collection. Cheap when nothing has changed. PYTHON names the interpreter to use.
set -eu

cd "$(dirname "$0")/.."
what=${1:-run}
venv=.venv

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.15}; do
        if command -v "$candidate" >/dev/null 2>&1 && is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "No Python 3.11 or newer was found (looked for ${PYTHON:-python3, python3.11 .. python3.15}).
Install one (Debian and Ubuntu: apt install python3 python3-venv; Fedora and EL: dnf install python3.12), or name it: make setup PYTHON=/path/to/python3"
}

# What was installed: a changed requirements file installs again.
stamp_of() {
    if [ "$1" = run ]; then cat requirements.txt; else cat requirements.txt requirements-test.txt; fi | cksum
}

has() {
    [ "$(cat "$venv/.stamp-$1" 2>/dev/null)" = "$(stamp_of "$1")" ]
}

# Programs of an environment name its place, so that one in a checkout that was moved is made anew.
is_here() {
    [ "$(cat "$venv/.place" 2>/dev/null)" = "$PWD" ] && "$venv/bin/python" -c '' 2>/dev/null
}

link_collection() {
    mkdir -p "$venv/collections/ansible_collections/gpufleet"
    # Relative, so that the checkout can be moved; replaced only when it is a link or not there.
    link="$venv/collections/ansible_collections/gpufleet/cuda"
    if [ -e "$link" ] && [ ! -L "$link" ]; then
        fail "$PWD/$link is there and is no link. Move it away, then run this again."
    fi
    [ "$(readlink "$link" 2>/dev/null)" = ../../../.. ] || ln -sfn ../../../.. "$link"
}

if is_here && { has "$what" || { [ "$what" = run ] && has test; }; }; then
    link_collection
    exit 0
fi

if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ]; then
    fail "$PWD/$venv is there and is no virtual environment. Move it away, then run this again."
fi
python=$(find_python)
set -- -r requirements.txt
[ "$what" = run ] || set -- "$@" -r requirements-test.txt

if command -v uv >/dev/null 2>&1; then
    printf 'Setting up %s with uv (%s) ...\n' "$venv" "$what" >&2
    is_here || uv venv --quiet --clear --python "$python" "$venv"
    uv pip install --quiet --python "$venv/bin/python" "$@"
else
    printf 'Setting up %s with pip (%s); this takes a minute ...\n' "$venv" "$what" >&2
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$python has no venv module with ensurepip.
Install it (Debian and Ubuntu: apt install python3-venv), or install uv, then run this again."
    is_here || "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
fi
link_collection
printf '%s\n' "$PWD" >"$venv/.place"
stamp_of "$what" >"$venv/.stamp-$what"
