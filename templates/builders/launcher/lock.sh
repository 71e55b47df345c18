#!/bin/sh
# Takes what the launcher imports at run time out of the lock of the whole project: the same versions, the same hashes.
# usage, from the root of the repo: sh templates/builders/launcher/lock.sh
set -eu
packages='prometheus-client pyyaml ruamel-yaml'
{
    echo '# Every package of the launcher by version and hash. Made by templates/builders/launcher/lock.sh.'
    awk -v packages="$packages" '
        BEGIN { split(packages, names, " "); for (i in names) wanted[names[i]] = 1 }
        /^[a-z0-9]/ { name = $1; sub(/==.*/, "", name); on = name in wanted }
        on && !/^ *#/ { print }
    ' requirements.lock
} > templates/builders/launcher/requirements.lock
