#!/bin/sh
# Everything that reads code without running it. All of it is run, then the outcome is told.
set -u

cd "$(dirname "$0")/.." || exit
here=$PWD
PATH=$here/.venv/bin:$PATH
ANSIBLE_CONFIG=$here/ansible.cfg
export PATH ANSIBLE_CONFIG
failed=

check() {
    name=$1
    shift
    printf '%s ... ' "$name"
    if out=$("$@" 2>&1); then
        printf 'ok\n'
    else
        printf 'FAILED\n%s\n' "$out"
        failed="$failed $name"
    fi
}

types() {
    cd "$here/.venv/collections" && mypy --config-file "$here/pyproject.toml" --cache-dir "$here/.mypy_cache" -p ansible_collections.gpufleet.cuda.plugins
}

check ruff ruff check .
check ruff-format ruff format --check .
check mypy types
check yamllint yamllint --strict .
check ansible-lint ansible-lint --offline --profile production
check changelog antsibull-changelog lint
check docs antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=self --skip-rstcheck .

if [ -n "$failed" ]; then
    printf 'Failed:%s\n' "$failed" >&2
    exit 1
fi
