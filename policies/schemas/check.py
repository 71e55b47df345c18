"""Judges every object by the schema of its kind; one that no schema covers is a finding, not a silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from kubekit.identity import Manifest, ObjectId
from policies.model import Finding, Severity, Source
from policies.schemas.builtin import BuiltinSchemas, builtin_schemas, group_of
from policies.schemas.compiled import Fault, SchemaUnusable
from policies.schemas.crds import ENVELOPE, CrdSchema, CrdSchemas, SchemaFileBroken

POLICY = "schema-valid"
_PULL = "Run `paperclip-gitops schemas pull` (with --from-cluster for a kind outside the pinned catalog)"

Placed: TypeAlias = tuple[Manifest, Source | None]


@dataclass(frozen=True)
class Coverage:
    """How many objects a schema judged; `unchecked` counts the others by kind, as "group/Kind"."""

    checked: int
    unchecked: Mapping[str, int]


@dataclass(frozen=True)
class SchemaReport:
    findings: tuple[Finding, ...]
    coverage: Coverage


@dataclass
class _Tally:
    builtin: BuiltinSchemas
    crds: CrdSchemas
    declared: frozenset[str]
    require_all: bool
    findings: list[Finding] = field(default_factory=list)
    checked: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)


def check(
    manifests: Sequence[Placed],
    *,
    kubernetes_version: str,
    crds: CrdSchemas,
    declared_unchecked: frozenset[str],
    require_all: bool,
    cache: Path | None,
) -> SchemaReport:
    """Findings of `schema-valid` in the order of `manifests`.

    `declared_unchecked` names kinds ("group/Kind") that may lack a schema; with `require_all` none may.
    `cache` is a folder for prepared schemas; None keeps them in memory.
    Raises UnsupportedVersion and SchemaDataMissing (versions.py).
    """
    builtin = builtin_schemas(kubernetes_version, cache)
    tally = _Tally(builtin, crds, declared_unchecked, require_all)
    for manifest, source in manifests:
        _judge(tally, manifest, source)
    return SchemaReport(tuple(tally.findings), Coverage(tally.checked, dict(sorted(tally.unchecked.items()))))


def _judge(tally: _Tally, manifest: Manifest, source: Source | None) -> None:
    identity = ObjectId.of(manifest)
    absent = [name for name, value in (("apiVersion", identity.api_version), ("kind", identity.kind)) if not value]
    if absent:
        fault = Fault("", f'"{absent[0]}" is missing or not text', f'Add "{absent[0]}".')
        _report(tally, identity, source, [fault])
        return
    try:
        if tally.builtin.knows(identity.api_version, identity.kind):
            compiled = tally.builtin.compiled(identity.api_version, identity.kind)
            _report(tally, identity, source, compiled.faults(manifest, secret=identity.kind == "Secret"))
            tally.checked += 1
            return
        crd = tally.crds.find(identity.group, identity.kind, identity.version)
        if crd is None:
            _without_schema(tally, identity, source)
        else:
            _judge_custom(tally, crd, manifest, source)
    except (SchemaUnusable, SchemaFileBroken) as error:
        _report(tally, identity, source, [Fault("", str(error), f"{_PULL} again.")])


def _judge_custom(tally: _Tally, crd: CrdSchema, manifest: Manifest, source: Source | None) -> None:
    identity = ObjectId.of(manifest)
    meta = tally.builtin.object_meta().faults(manifest.get("metadata", {}))
    at_meta = [Fault(f"/metadata{fault.pointer}", fault.message, fault.remedy) for fault in meta]
    # The schema's own word on metadata is at most "a map"; the same fault is not told twice.
    own = [fault for fault in crd.compiled.faults(manifest) if not (meta and fault.pointer == "/metadata")]
    _report(tally, identity, source, sorted([*at_meta, *own]))
    # An object that is its name and no more (a Project of Kargo) has nothing that could go unchecked.
    if crd.checks or not manifest.keys() - ENVELOPE:
        tally.checked += 1
        return
    tally.unchecked[kind_name(identity)] += 1
    message = f"the schema of {identity.api_version} {identity.kind} is not checking: it types no content"
    remedy = "Pull a fuller one with `paperclip-gitops schemas pull --from-cluster`, or read the object."
    _report(
        tally,
        identity,
        source,
        [Fault("/spec" if "spec" in manifest else "", message, remedy)],
        Severity.WARNING,
    )


def _without_schema(tally: _Tally, identity: ObjectId, source: Source | None) -> None:
    name = kind_name(identity)
    tally.unchecked[name] += 1
    if identity.group in tally.builtin.groups:
        _report(tally, identity, source, [_not_served(tally.builtin, identity)])
        return
    if name in tally.declared and not tally.require_all:
        return
    _report(tally, identity, source, [absent_schema(tally.crds, identity, require_all=tally.require_all)])


def absent_schema(crds: CrdSchemas, identity: ObjectId, *, require_all: bool) -> Fault:
    """What is said of a custom resource that has no schema."""
    message = f"no schema for {identity.api_version} {identity.kind}"
    others = crds.versions(identity.group, identity.kind)
    if others:
        message += f"; there is one for {', '.join(f'{identity.group}/{other}' for other in others)}"
    leave = "" if require_all else f', or declare "{kind_name(identity)}" as unchecked in the config'
    return Fault("", message, f"{_PULL}{leave}.")


def _not_served(builtin: BuiltinSchemas, identity: ObjectId) -> Fault:
    """A group of Kubernetes itself: the kind is misspelt, or stands in another version of the API."""
    kinds = builtin.kinds()
    others = sorted(version for version, kind in kinds if kind == identity.kind)
    message = f"Kubernetes {builtin.version} does not serve {identity.api_version} {identity.kind}"
    if others:
        same_group = [version for version in others if group_of(version) == identity.group]
        return Fault("/apiVersion", message, f"Use {' or '.join(same_group or others)}.")
    near = get_close_matches(identity.kind, sorted({kind for _, kind in kinds}), n=1, cutoff=0.75)
    return Fault("/kind", message, f'Did you mean "{near[0]}"?' if near else "Correct apiVersion and kind.")


def kind_name(identity: ObjectId) -> str:
    """The kind as "group/Kind", as the config declares it; only "Kind" for core."""
    return f"{identity.group}/{identity.kind}" if identity.group else identity.kind


def _report(
    tally: _Tally,
    identity: ObjectId,
    source: Source | None,
    faults: Sequence[Fault],
    severity: Severity = Severity.ERROR,
) -> None:
    tally.findings.extend(
        Finding(POLICY, severity, identity, fault.pointer, fault.message, fault.remedy, source) for fault in faults
    )
