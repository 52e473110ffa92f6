#!/bin/sh
# ansible-test sanity on a copy of the working tree: it wants a folder that ends in ansible_collections/gpufleet/cuda, no links.
set -eu

cd "$(dirname "$0")/.."
here=$PWD
home=${GPUFLEET_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}/gpufleet-tests/ansible-test
mkdir -p "$home/.ansible/test/cache"

# ansible-test fetches a script that puts pip into its environments. Python brings a pip of its own, which needs no fetching.
for version in $("$here/.venv/bin/python" - <<'PY'
import pathlib, re
import ansible_test
text = (pathlib.Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py").read_text()
text += (pathlib.Path(ansible_test.__file__).parent / "_util" / "target" / "setup" / "requirements.py").read_text()
print(*sorted(set(re.findall(r"\b(2\d\.\d(?:\.\d)?)\b", text))))
PY
); do
    bootstrap=$home/.ansible/test/cache/get_pip_$(printf %s "$version" | tr . _).py
    [ -e "$bootstrap" ] || printf 'import ensurepip\n\nensurepip.bootstrap()\n' >"$bootstrap"
done

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
target=$copy/ansible_collections/gpufleet/cuda
mkdir -p "$target"
git -c core.quotePath=off ls-files --cached --others --exclude-standard | while IFS= read -r file; do
    [ ! -e "$file" ] || cp --parents "$file" "$target"
done
cd "$target"
git init --quiet
git add --all

HOME=$home
PATH=$here/.venv/bin:$PATH
export HOME PATH
status=0
ansible-test sanity --color no --python "$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$@" || status=1
# The oldest Python of hosts, where there is one: modules and what they import must load there.
if [ $# = 0 ] && python3.8 -c '' 2>/dev/null; then
    ansible-test sanity --color no --python 3.8 --test import --test compile || status=1
fi
exit $status
