"""Who this process is among launchers: a name of its own that the next process with the same folder has again.

A process that drives one run has a name made of the folder's and of the run, so that any number of them work side by
side, and one that is started again after a crash owns its run at once. The lock is the kernel's, and goes with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kubekit.names import slug_with_hash
from paperclip_launcher.cli.usage import UNKNOWN
from paperclip_launcher.errors import LauncherError

JOURNAL = "journal"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class IdentityTaken(LauncherError):
    """Another process of this machine works under the same name."""

    exit_code = UNKNOWN
    remedy = "wait for it, or end it first: its run goes on meanwhile, and can be attached to"


def identity_of(folder: Path) -> str:
    """The name of the folder's launcher; made when it is asked for first. OSError where it cannot be kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "identity"
    if found := _named(path):
        return found
    with (folder / ".identity.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of threads too: each has opened it for itself
        if found := _named(path):
            return found  # the first of several
        host = re.sub("[^A-Za-z0-9-]+", "-", socket.gethostname()).strip("-")[:60] or "launcher"
        made = f"{host}-{secrets.token_hex(4)}"
        fresh = folder / ".identity.new"
        with fresh.open("w", encoding="ascii") as stream:
            stream.write(f"{made}\n")
            stream.flush()
            os.fsync(stream.fileno())  # runs will be owned by that name
        fresh.replace(path)
        return made


def _named(path: Path) -> str:
    """What stands in the file; "" where that is no name, or nothing yet."""
    try:
        found = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return ""
    return found if _NAME.fullmatch(found) else ""


def identity_of_run(folder: Path, job: str) -> str:
    """The name of a process that drives only the run with this Job."""
    return f"{identity_of(folder)}-{hashlib.sha256(job.encode()).hexdigest()[:10]}"


@contextmanager
def held(folder: Path, identity: str) -> Iterator[str]:
    """Works under `identity` for a while, as the only process with this folder. IdentityTaken, OSError."""
    locks = folder / "locks"
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = locks / slug_with_hash(identity)
    descriptor = _locked(path, identity)
    try:
        yield identity
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def held_by_some(folder: Path, wanted: str = "") -> Iterator[str]:
    """As `held`, under the folder's own name, or under a new one where another process has that."""
    own = wanted or identity_of(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder, own))
        except IdentityTaken:
            if wanted:
                raise
            own = stack.enter_context(held(folder, f"{own}-{secrets.token_hex(4)}"))
        yield own


def _locked(path: Path, identity: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise IdentityTaken(f"process {holder or '?'} works as {identity} already ({path})") from None
        try:
            current = path.stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            current = False
        if current:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)  # its holder has just ended and taken it away
