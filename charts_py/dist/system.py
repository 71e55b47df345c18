"""The calls that change the disk, one method each, so that the rest is plain logic over them.

Power loss is not `kill -9`. Against a kill nothing needs flushing: the page cache outlives the process, and
only the order of calls matters. Against a power loss the bytes must be on the disk before the swap. Up to 32
entries are fsynced one by one (0.2 ms each here); more are flushed by one syncfs(2) of the file system
(10,000 small files: 0.05 to 0.1 s against 2 to 4 s one by one), at the price of waiting for what others wrote
there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from charts_py.dist.lock import PATIENCE

_FSYNC_EACH = 32
_AT_FDCWD = -100
_LINUX_RENAME_EXCHANGE = 2  # linux/fs.h
_DARWIN_RENAME_SWAP = 2  # sys/stdio.h
_NO_EXCHANGE = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM},
)
_NO_LINK = frozenset(
    {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
)


class SystemCalls:
    """Linux and macOS; modes are set by chmod because mkdir and open obey the umask."""

    patience = PATIENCE

    def make_folder(self, path: str) -> None:
        os.mkdir(path)  # noqa: PTH102 - 10,000 Path objects cost more than the calls
        os.chmod(path, 0o755)  # noqa: PTH101, S103 - rendered state is public by nature

    def write_file(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o644)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> None:
        """A second name for the same file; a copy with the same times where the file system has no links."""
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in _NO_LINK:
                raise
            shutil.copy2(source, target, follow_symlinks=False)

    def flush(self, root: str, entries: Sequence[str]) -> None:
        """Returns when `entries` (files and folders below `root`) are on the disk."""
        if len(entries) > _FSYNC_EACH and self._flush_file_system(root):
            return
        for entry in entries:
            self.flush_entry(entry)

    def flush_entry(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as problem:
            if problem.errno not in {errno.EINVAL, errno.ENOTSUP}:  # folders on some network file systems
                raise
        finally:
            os.close(descriptor)

    def exchange(self, one: Path, other: Path) -> bool:
        """Swaps two folders in one step. False if the kernel or the file system has no such call."""
        library = ctypes.CDLL(None, use_errno=True)
        pair = (os.fsencode(one), os.fsencode(other))
        if sys.platform == "darwin":
            call, arguments = "renamex_np", (*pair, ctypes.c_uint(_DARWIN_RENAME_SWAP))
        else:
            call = "renameat2"
            arguments = (_AT_FDCWD, pair[0], _AT_FDCWD, pair[1], ctypes.c_uint(_LINUX_RENAME_EXCHANGE))
        function = getattr(library, call, None)
        if function is None:
            return False
        if function(*arguments) == 0:
            return True
        number = ctypes.get_errno()
        if number in _NO_EXCHANGE:
            return False
        raise OSError(number, os.strerror(number), str(one), None, str(other))

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def remove_tree(self, path: Path) -> None:
        """What cannot be removed stays: it is cleaned at the next start."""
        shutil.rmtree(path, ignore_errors=True)

    def _flush_file_system(self, root: str) -> bool:
        function = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if function is None:
            return False
        descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if function(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), root)
        finally:
            os.close(descriptor)
        return True


SYSTEM = SystemCalls()
