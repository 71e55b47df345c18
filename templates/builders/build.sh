#!/bin/sh
# Builds one of the images from the root of the repo. usage: sh templates/builders/build.sh launcher|agent IMAGE [OPTION...]
# The base comes from images.lock by its digest, the time from the last commit; OPTIONs go to `docker build`.
set -eu
name=${1:-} image=${2:-}
case $name in
launcher) base=docker.io/library/python:3.13-slim-trixie argument=PYTHON_IMAGE ;;
agent) base=docker.io/library/node:24-trixie argument=NODE_IMAGE ;;
*) echo "build: which image? usage: build.sh launcher|agent IMAGE" >&2; exit 2 ;;
esac
[ -n "$image" ] || { echo "build: under which name? usage: build.sh $name IMAGE" >&2; exit 2; }
shift 2
digest=$(awk -v base="$base" '
    $1 == "-" && $2 == "image:" { on = $3 == base }
    on && $1 == "digest:" { print $2; exit }
' images.lock)
case $digest in
sha256:*) ;;
*) echo "build: images.lock has no digest of $base; run \`paperclip-gitops images lock $base\`" >&2; exit 1 ;;
esac
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
exec docker build --file "templates/builders/$name/Dockerfile" --tag "$image" \
    --build-arg "$argument=$base@$digest" --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "$@" .
