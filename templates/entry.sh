#!/bin/sh
# Runs one agent: joins the parts of its prompt, starts it with the prompt on stdin, passes a stop on to it
# and ends with its exit code.
# Arguments: the folder of the prompt parts, the working directory, the program, its arguments. A file pre-run beside
# the parts is run before the program; what it prints goes to stderr, and how it ends does not matter.
# Exit codes of its own: see README.md. Plain POSIX sh for dash and busybox alike. Kubernetes reads this text
# before the shell does, so no dollar sign may stand before another one or before an opening parenthesis.
set -u

fail() {
    code=$1
    shift
    printf 'paperclip-entry: %s\n' "$*" >&2
    exit "$code"
}

agent=''
group=''
early=''
stopped=''
# INT goes on as TERM too: a shell starts what runs in the background with INT ignored. Not `kill -s TERM --`:
# busybox sends that and then says that it failed.
stop() {
    stopped=1
    if [ -z "$agent" ]; then
        early=1
        return
    fi
    if [ -n "$group" ]; then
        # Until setsid runs there is no group, and what is there still has the handler of this shell.
        for _ in 1 2 3; do
            kill -TERM "-$agent" 2>/dev/null && return
            kill -0 "$agent" 2>/dev/null || return
            sleep 1
        done
    fi
    kill -TERM "$agent" 2>/dev/null
}
# From the first moment: a process 1 without a handler does not even notice TERM.
trap stop TERM INT

[ "$#" -ge 3 ] || fail 64 "want the folder of the prompt, the working directory and a program; got $# arguments"
parts=$1
directory=$2
shift 2
prompt=${TMPDIR:-/tmp}/paperclip-prompt

mkdir -p "${HOME:-/}" "$directory" || fail 73 "cannot make the home ${HOME:-/} or the working directory $directory"
cd "$directory" || fail 73 "cannot enter the working directory $directory"

for part in "$parts"/part-*; do
    [ -f "$part" ] && [ -r "$part" ] || fail 66 "cannot read the prompt at $part"
done
(umask 077 && cat "$parts"/part-* >"$prompt") || fail 73 "cannot copy the prompt to $prompt"

# Groups of their own, so that a stop reaches what they have started as well.
leader=''
if command -v setsid >/dev/null 2>&1; then
    group=1
    leader=setsid
fi

if [ -f "$parts/pre-run" ] && [ -z "$early" ]; then
    # In the background, so that a stop reaches this shell meanwhile.
    $leader /bin/sh "$parts/pre-run" </dev/null >&2 &
    agent=$!
    wait "$agent"
    code=$?
    while [ -n "$stopped" ] && kill -0 "$agent" 2>/dev/null; do
        wait "$agent"
    done
    agent=''
    [ -z "$stopped" ] || fail 143 "stopped before the agent was started"
    [ "$code" -eq 0 ] || printf 'paperclip-pre-run: ended with exit code %s\n' "$code" >&2
fi

if ! command -v "$1" >/dev/null 2>&1; then
    case $1 in
    */*) [ ! -e "$1" ] || fail 126 "the program $1 may not be executed" ;;
    esac
    fail 127 "the program $1 is not in this image; PATH is ${PATH:-not set}"
fi

[ -z "$early" ] || fail 143 "stopped before the agent was started"
# exec: never a builtin of this shell, and no shell in between that would keep a signal to itself.
exec $leader "$@" <"$prompt" &
agent=$!
# A stop may have come before there was anything to pass it on to.
[ -z "$early" ] || stop

wait "$agent"
code=$?
# A signal ends `wait` early, with a code of the shell; 127 means that the first one had the true code already.
while [ -n "$stopped" ]; do
    stopped=''
    wait "$agent"
    again=$?
    [ "$again" -eq 127 ] || code=$again
done
exit "$code"
