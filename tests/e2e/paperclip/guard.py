"""Starts the Paperclip server as often as it is told to, and ends all of it when its own standard input is closed.

A program of its own, so that the server, its Postgres and whatever an adapter started end with the tests, also with
tests that were killed. It is the reaper of all its descendants (prctl(2), PR_SET_CHILD_SUBREAPER): none can leave the
family, and when there is no child left there is no process left.

Arguments: the folder that goes at the end, the file for the server's output, and the command. Orders come as lines:
`start`, or the number of a signal for the server. It tells `started PID` and `ended CODE`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_SUBREAPER = 36
_POSTGRES_SECONDS = 5


def main(folder: Path, output: Path, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _hear_no_more)
    try:
        _serve(woken, output, command)
    except OSError:
        pass  # nobody listens any more, or a signal ended us
    finally:
        _end()
        shutil.rmtree(folder, ignore_errors=True)


def _hear_no_more(*_: object) -> None:
    with contextlib.suppress(OSError):  # a second signal
        os.close(0)


def _serve(woken: int, output: Path, command: list[str]) -> None:
    server = 0
    orders = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, code in _reaped():
                if pid == server:
                    server = 0
                    _tell(f"ended {code}")
        if 0 not in ready:
            continue
        heard = os.read(0, 4096)
        if not heard:
            return
        *whole, orders = (orders + heard).split(b"\n")
        for order in whole:
            if order == b"start":
                server = _started(output, command)
                _tell(f"started {server}")
            elif server:  # not reaped, so that the pid is still its own
                os.kill(server, int(order))


def _started(output: Path, command: list[str]) -> int:
    with output.open("ab") as stream:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        ).pid


def _tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def _reaped() -> list[tuple[int, int]]:
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def _end() -> None:
    """Postgres is told to end at once, since killed it leaves shared memory behind; everything else is killed."""
    family = _family()
    databases = [pid for pid in family if _is_postgres(pid)]
    _signal(databases, signal.SIGQUIT)
    _signal([pid for pid in family if pid not in databases], signal.SIGKILL)
    limit = time.monotonic() + _POSTGRES_SECONDS
    while family and time.monotonic() < limit:
        _reaped()
        time.sleep(0.02)
        family = _family()
        _signal([pid for pid in family if not _is_postgres(pid)], signal.SIGKILL)
    while family := _family():
        _signal(family, signal.SIGKILL)
        _reaped()
        time.sleep(0.02)


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return False


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _family() -> list[int]:
    """All descendants, those that nobody has waited for too."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        born = children.get(waiting.pop(), [])
        found += born
        waiting += born
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
