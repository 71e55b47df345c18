"""Two sets of files → what happened to each object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from charts_py.diff import risk
from charts_py.diff.compare import FieldChange, field_changes
from charts_py.diff.documents import Located, located
from charts_py.diff.sources import Files
from charts_py.diff.verdict import Verdict, worst
from kubekit.identity import ObjectId

Happened = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True)
class ObjectChange:
    """`path` is relative to the environment, `old_path` what it was before, "" if the same.

    A `moved` object has the same content in another file. `identity` names a file without object by its path.
    """

    environment: str
    happened: Happened
    identity: ObjectId
    path: str
    old_path: str = ""
    fields: tuple[FieldChange, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def risk(self) -> str:
        return worst(verdict.risk for verdict in self.verdicts)

    def risk_of(self, change: FieldChange) -> str:
        return worst(verdict.risk for verdict in self.verdicts if risk.fits(verdict, change))


def object_changes(old: Files, new: Files) -> list[ObjectChange]:
    """Sorted by environment and path. Files with the same bytes on both sides are not even parsed."""
    before = _objects((path for path in sorted(old) if new.get(path) != old[path]), old)
    after = _objects((path for path in sorted(new) if old.get(path) != new[path]), new)
    found = [_judged(before.get(key), after.get(key)) for key in {**before, **after}]
    return sorted(
        (change for change in found if change is not None),
        key=lambda change: (change.environment, change.path),
    )


def _objects(paths: Iterable[str], files: Mapping[str, bytes]) -> dict[tuple[str, ...], Located]:
    found: dict[tuple[str, ...], Located] = {}
    for path in paths:
        for item in located(path, files[path]):
            key = (item.environment, *item.key)
            while key in found:  # the same object twice in one state: the later ones are told apart by their file
                key = (*key, item.path)
            found[key] = item
    return found


def _judged(old: Located | None, new: Located | None) -> ObjectChange | None:
    here = new or old
    if here is None:
        return None
    if old is None or new is None:
        happened: Happened = "added" if old is None else "removed"
        verdicts = risk.verdicts(old.manifest if old else None, new.manifest if new else None) if here.is_object else ()
        return ObjectChange(here.environment, happened, _identity(here), here.path, verdicts=verdicts)
    fields = tuple(field_changes(old.manifest, new.manifest))
    old_path = "" if old.path == new.path else old.path
    if not fields and not old_path:
        return None
    return ObjectChange(
        here.environment,
        "changed" if fields else "moved",
        _identity(new),
        new.path,
        old_path,
        fields,
        risk.verdicts(old.manifest, new.manifest, fields),
    )


def _identity(item: Located) -> ObjectId:
    return ObjectId.of(item.manifest) if item.is_object else ObjectId("", "File", "", item.path)
