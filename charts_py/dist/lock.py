"""One publisher at a time, and no reader sees half of two states.

The lock is flock(2) on the folder that holds dist: the kernel drops it when its holder dies, and no lock file
is left in anybody's repository.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from charts_py.dist.errors import DistBusy

PATIENCE = 10.0
"""Seconds to wait for another process."""
_PAUSE = 0.02
_NO_LOCKS = frozenset(
    {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS}
)


@contextmanager
def held(
    folder: Path,
    *,
    exclusive: bool,
    patience: float = PATIENCE,
    holder: Callable[[], str] = str,
) -> Iterator[bool]:
    """Holds the lock for the block. Yields False where the file system has no locks (some network ones).

    `holder` names who has it, for the DistBusy that is raised after `patience` seconds.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _acquire(descriptor, folder, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, patience, holder)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path, mode: int, patience: float, holder: Callable[[], str]) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                who = holder()
                raise DistBusy(
                    f"{folder} is being published to by another process{f' ({who})' if who else ''}; "
                    f"waited {patience:g} s",
                    "wait for it to end, then run again",
                ) from None
            time.sleep(_PAUSE)
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                return False
            raise
        else:
            return True
