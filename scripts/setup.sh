#!/bin/sh
# Makes the virtual environment from a lock. usage: setup.sh VENV LOCK STAMP
set -eu
venv=$1 lock=$2 stamp=$3
python=
for candidate in python3.13 python3.12 python3.11 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "setup: Python 3.11 or newer is needed, and none was found on PATH" >&2
    exit 4
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "setup: installing $(grep -c '^[a-z]' "$lock") packages from $lock" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch "$stamp"
