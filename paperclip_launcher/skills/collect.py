"""Removes bundles that nobody used for long, and what builders left unfinished."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from kubekit.names import is_dns_label
from paperclip_launcher.skills.bundle import BUNDLES
from paperclip_launcher.skills.walk import names_in

GONE = ".gone-"
"""Begins the name of a bundle that is being removed."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def collect(root: str, *, older_than_seconds: float, now: float, keep: Collection[str] = ()) -> list[str]:
    """Removes below `root`, the claim's mount, each bundle that was last used so long ago; says which, by their path.

    `keep` are paths, as Bundle.relative_path, that runs still use. OSError where the claim cannot be read at all.
    """
    removed: list[str] = []
    with _opened(root, None) as top, suppress(FileNotFoundError), _opened(BUNDLES, top) as bundles:
        for company in names_in(bundles):
            if not is_dns_label(company):
                continue
            with suppress(FileNotFoundError, NotADirectoryError), _opened(company, bundles) as place:
                path = f"{BUNDLES}/{company}/"
                kept = {one.removeprefix(path) for one in keep if one.startswith(path)}
                limit = now - older_than_seconds
                removed += [path + name for name in names_in(place) if _remove(place, name, limit, kept)]
    return removed


def _remove(place: int, name: str, limit: float, kept: Collection[str]) -> bool:
    if name in kept or not _is_older(place, name, limit):
        return False
    gone = name if name.startswith(GONE) else GONE + name
    try:
        if gone != name:
            os.rename(name, gone, src_dir_fd=place, dst_dir_fd=place)
        # A run may have begun to use it since: it had touched it before it was renamed, or it will see that it went.
        if not _is_older(place, gone, limit):
            os.rename(gone, name, src_dir_fd=place, dst_dir_fd=place)
            return False
        shutil.rmtree(gone, dir_fd=place)
    except OSError:
        # Another collector was faster, or the same bundle has been made again; what is left is old next time as well.
        return False
    return True


def _is_older(place: int, name: str, limit: float) -> bool:
    try:
        return os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime < limit
    except FileNotFoundError:
        return False


@contextmanager
def _opened(name: str, place: int | None) -> Iterator[int]:
    """A folder; the mount itself may be a link, nothing in it may."""
    flags = _FOLDER & ~os.O_NOFOLLOW if place is None else _FOLDER
    descriptor = os.open(name, flags, dir_fd=place)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
