#!/usr/bin/env bash
# Ends the cluster NAME with its files in STATE as soon as standard input is closed: by the tests, or by their
# death. Arguments: the script that stops a cluster. All that runs in one stands in the cgroups named after it,
# also what was just being started; so nothing is left, whenever the end comes.
read -r _
for try in 1 2 3 4 5; do
    found=$(find /sys/fs/cgroup/*/"$NAME" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u)
    [ -n "$found" ] || break
    # shellcheck disable=SC2086
    kill -KILL $found 2>/dev/null
    sleep 0.$try
done
exec bash "$1"
