"""Skills of runs whose launcher has no claim: what travels in Secrets, and what a pod finds of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kubekit.podspec import bundle_secrets
from paperclip_launcher.skills.bundle import HeldBundle
from paperclip_launcher.skills.pack import folder_of
from paperclip_launcher.skills.sinks import HeldFile
from tests.launcher.sim.script import Skills

SECRET_BYTES = 1_000
"""A Secret has so little room here that each skill needs one of its own."""
_PROGRAM = b"#!/bin/sh\n"


@cache
def held(names: tuple[str, ...]) -> HeldBundle:
    """The bundle of the skills."""
    files: list[HeldFile] = []
    for name in names:
        files.append(HeldFile(f".claude/skills/{name}/SKILL.md", f"how to {name} ".encode() * 40))
        files.append(HeldFile(f".claude/skills/{name}/run.sh", _PROGRAM, runs=True))
    return HeldBundle(hashlib.sha256("/".join(names).encode()).hexdigest(), tuple(files), names) if names else _NONE


def problem(skills: Skills, pod: Mapping[str, Any], secret: Callable[[str], Mapping[str, Any] | None]) -> str:
    """What is wrong with the files that a container finds as it starts, "" for nothing: they are those of one request,
    all of them.
    """
    found: dict[str, bytes] = {}
    for source in bundle_secrets({"kind": "Pod", **pod}):
        data = (secret(source["name"]) or {}).get("data") or {}
        found |= {one["path"]: base64.b64decode(data.get(one["key"], "")) for one in source["items"]}
    wanted = [_files(held(names)) for names in (skills.names, skills.later)]
    return "" if found in wanted else f"starts with the files {sorted(found)}"


@cache
def _files(bundle: HeldBundle) -> Mapping[str, bytes]:
    return {f"{folder_of(bundle.key)}/{one.path}": one.content for one in bundle.files}


_NONE = HeldBundle()
