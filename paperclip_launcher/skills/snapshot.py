"""What Paperclip's skills tab shows of an agent: the answer to its listSkills, and to syncSkills as well.

A run gets its skills by a bundle that is made for it, so there is nothing to install and nothing to sync: both give the
same. The shape is that of adapter-utils' AdapterSkillSnapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paperclip_launcher.options import Skill, match_skill, offered_skills

_MANAGED = {"managed": True, "readOnly": False, "origin": "company_managed", "originLabel": "Managed by Paperclip"}
_UNKNOWN = {
    "managed": False,
    "readOnly": True,
    "origin": "external_unknown",
    "originLabel": "External or unavailable",
    "state": "missing",
}
_INSTALLED = {
    "managed": False,
    "readOnly": True,
    "origin": "user_installed",
    "originLabel": "User-installed",
    "state": "external",
    "locationLabel": "~/.claude/skills",
}
_DETAIL = "Copied into the bundle that every run of this agent mounts."


def skills_snapshot(config: Mapping[str, Any], *, adapter_type: str, installed: Iterable[str] = ()) -> dict[str, Any]:
    """As plain JSON values. `installed` are the names of folders in the agent's own ~/.claude/skills."""
    warnings: list[str] = []
    offered = offered_skills(config.get("paperclipRuntimeSkills"), warnings)
    desired: dict[str, Skill | None] = {}
    for name in _wanted(config):
        found = match_skill(name, offered)
        desired[found.key if found else name] = found
        if not found:
            warnings.append(f'Desired skill "{name}" is not available from the Paperclip skills directory.')
    entries = [_offered_entry(one, wanted=one.key in desired) for one in offered]
    entries += [_entry(name, None, desired=True) | _UNKNOWN for name, found in desired.items() if not found]
    known = {one.runtime_name for one in offered}
    entries += [_entry(name, name, desired=False) | _INSTALLED for name in sorted({*installed} - known)]
    return {
        "adapterType": adapter_type,
        "supported": True,
        "mode": "ephemeral",
        "desiredSkills": sorted(desired),
        "entries": sorted(entries, key=lambda entry: str(entry["key"])),
        "warnings": warnings,
    }


def _offered_entry(skill: Skill, *, wanted: bool) -> dict[str, Any]:
    state = {"state": "configured", "detail": _DETAIL} if wanted else {"state": "available"}
    return _entry(skill.key, skill.runtime_name, desired=wanted) | _MANAGED | {"sourcePath": skill.source} | state


def _entry(key: str, runtime_name: str | None, *, desired: bool) -> dict[str, Any]:
    empty = {"locationLabel": None, "sourcePath": None, "targetPath": None, "detail": None}
    return {"key": key, "runtimeName": runtime_name, "desired": desired, **empty}


def _wanted(config: Mapping[str, Any]) -> Iterator[str]:
    sync = config.get("paperclipSkillSync")
    names = sync.get("desiredSkills") if isinstance(sync, Mapping) else None
    for one in names if isinstance(names, list | tuple) else ():
        name = one.get("key") if isinstance(one, Mapping) else one
        if isinstance(name, str) and name.strip():
            yield name.strip()
