"""Packs a bundle into Secrets: which file stands under which key of which Secret, and where a volume puts it.

The volume of the pod takes each key to its path below one folder, which is mounted by itself: a volume of Secrets has
links at its top, and the folder in it has none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubekit import gitcredentials
from paperclip_launcher.prompt import SECRET_BYTES
from paperclip_launcher.skills.sinks import HeldFile
from paperclip_launcher.skills.walk import LISTED, Limits

LIMITS = Limits(
    files=1_000,
    size=8 << 20,
    file_size=SECRET_BYTES - LISTED,
    listed=96 << 10,
    never=re.compile(gitcredentials.FILES),
)
"""What travels in Secrets. A file cannot be larger than a Secret. All names stand in the Job, which may have 900 KiB;
and where our admission policies are, the API server looks at each name, with a budget of its own for that.
"""
PROGRAM_MODE = 0o755
"""Of a file that may be executed; all others have the volume's own mode."""

_FOLDER_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one Secret holds, and the items of the volume that unpack it: {key, path, mode?}."""

    data: Mapping[str, bytes] = field(repr=False)
    items: tuple[Mapping[str, Any], ...] = field(repr=False)


def folder_of(key: str) -> str:
    """The folder in the volume: it says which bundle it is, so that Secrets of another one never fit a Job."""
    return key[:_FOLDER_CHARACTERS]


def pack(files: Iterable[HeldFile], key: str) -> tuple[Parcel, ...]:
    """The same files and key give the same parcels. Files of the same content share their bytes."""
    top = folder_of(key)
    parcels: list[tuple[dict[str, bytes], list[Mapping[str, Any]]]] = []
    places: dict[bytes, tuple[str, list[Mapping[str, Any]]]] = {}
    room = 0
    for file in files:
        digest = hashlib.sha256(file.content).digest()
        if digest not in places:
            size = len(file.content) + LISTED
            if size > room:
                parcels.append(({}, []))
                room = SECRET_BYTES
            room -= size
            name = f"f{len(places):04}"
            parcels[-1][0][name] = file.content
            places[digest] = name, parcels[-1][1]
        name, items = places[digest]
        mode = {"mode": PROGRAM_MODE} if file.runs else {}
        items.append({"key": name, "path": f"{top}/{file.path}", **mode})
    return tuple(Parcel(data, tuple(items)) for data, items in parcels)
