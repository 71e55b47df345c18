"""The one judge: policies, schemas and the real kubeconform, over what synth renders and over anybody's manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from charts_py import images, pipeline, samples
from charts_py.cachedir import cache_root
from charts_py.config.cluster import Cluster
from charts_py.errors import ConfigError, ToolMissing, UsageError
from charts_py.known import facts
from charts_py.manifests import Batch, gather
from kubekit import yamlwrite
from kubekit.identity import ObjectId
from policies import facts as facts_
from policies.documents.declared import stale_externals
from policies.facts import External, Facts
from policies.model import Finding, Severity, Source
from policies.registry import by_id
from policies.run import ordered, run
from policies.schemas import check as schemas
from policies.schemas import versions
from policies.schemas.builtin import builtin_schemas
from policies.schemas.check import Coverage, Placed
from policies.schemas.crds import CrdSchemas
from policies.world import World


@dataclass(frozen=True)
class Schemas:
    """By what schemas objects are judged. `declared` kinds may lack one; `cache` None keeps nothing."""

    crds: CrdSchemas
    declared: frozenset[str]
    require_all: bool
    cache: Path | None
    binary: Path | None = None


@dataclass(frozen=True)
class Rules:
    """By what every batch of a check is judged: `version` None is that of the facts.

    `facts` are documents of kind Facts with the name of their file; `declared` are objects said to be elsewhere.
    """

    version: str | None
    crds: CrdSchemas
    require_schemas: bool
    binary: Path | None = None
    facts: tuple[tuple[Mapping[str, Any], str], ...] = ()
    declared: tuple[External, ...] = ()


def judged(
    placed: Sequence[Placed],
    jobs: Sequence[tuple[dict[str, Any], Source]],
    known: Facts,
    by: Schemas,
    declared_in: Source,
) -> tuple[list[Finding], Coverage]:
    """What is wrong with objects and with the Jobs that their templates make; no waiver is applied here.

    Raises UnsupportedVersion, SchemaDataMissing and KubeconformFailed.
    """
    everything = [*placed, *jobs]
    world = World(everything, samples.with_externals(known, (job for job, _ in jobs)))
    report = schemas.check(
        everything,
        kubernetes_version=known.kubernetes_version,
        crds=by.crds,
        declared_unchecked=by.declared,
        require_all=by.require_all,
        cache=by.cache,
    )
    found = run(world)
    found += _news(report.findings, [one for one in found if one.policy == "api-version-served"])
    if by.binary is not None and placed:
        found += _news(_second(placed, known, by, by.binary), found_by_schema(found))
    found += stale_externals(world, declared_in)
    return samples.of_templates(found, jobs), report.coverage


def found_by_schema(found: Iterable[Finding]) -> list[Finding]:
    return [one for one in found if one.policy in {schemas.POLICY, "api-version-served", "yaml-go-safe"}]


def _news(second: Iterable[Finding], first: Iterable[Finding]) -> Iterator[Finding]:
    """What the second judge alone has seen: of an object that the first one refused, it says the same otherwise."""
    refused = {(one.object, one.source) for one in first if one.severity is Severity.ERROR}
    return (one for one in list(second) if (one.object, one.source) not in refused)


def _second(placed: Sequence[Placed], known: Facts, by: Schemas, binary: Path) -> list[Finding]:
    from policies.schemas.kubeconform import Kubeconform  # noqa: PLC0415  subprocess and files: never at synth

    judge = Kubeconform(
        binary, known.kubernetes_version, by.crds, by.declared, require_all=by.require_all, cache=by.cache
    )
    try:
        return list(judge.check_manifests(placed).findings)
    except ValueError:
        # Rare enough to look for only then: what has no form in JSON has none in a cluster.
        faults = {index: said for index, (manifest, _) in enumerate(placed) if (said := _unwritable(manifest))}
        if not faults:
            raise
    found = [
        Finding("yaml-go-safe", Severity.ERROR, ObjectId.of(placed[index][0]), "", said, _remedy(), placed[index][1])
        for index, said in faults.items()
    ]
    rest = [one for index, one in enumerate(placed) if index not in faults]
    return [*found, *(judge.check_manifests(rest).findings if rest else ())]


def _remedy() -> str:
    return by_id()["yaml-go-safe"].remedy


def _unwritable(manifest: Mapping[str, Any]) -> str:
    try:
        yamlwrite.dump(manifest)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def judge(batch: Batch, rules: Rules) -> list[Finding]:
    """All findings of a batch, each with the line it is about. Raises UsageError, ConfigError, ToolMissing."""
    from policies.schemas.kubeconform import KubeconformFailed  # noqa: PLC0415  as above

    environment = batch.environment
    known, broken = _facts(batch, rules)
    configured = environment.checks.unchecked_kinds if environment else ()
    unchecked = frozenset((*batch.unchecked, *configured, *known.unchecked_kinds))
    by = Schemas(rules.crds, unchecked, rules.require_schemas, kubernetes_cache(), rules.binary)
    folder = str(batch.folder) if batch.folder else ""
    jobs = list(samples.sample_jobs(batch.templates, folder))
    # A declared object stands in the config, or on the command line, where no line can be named.
    declared_in = Source(batch.config or "--external")
    try:
        found, _ = judged(batch.placed, jobs, known, by, declared_in)
    except versions.UnsupportedVersion as error:
        raise UsageError(error.message, error.remedy) from None
    except (versions.SchemaDataMissing, KubeconformFailed) as error:
        raise ToolMissing(str(error), error.remedy) from None
    here = [*broken, *batch.broken, *_not_canonical(batch), *(_at_line(one, batch) for one in found)]
    return ordered(here)


def _facts(batch: Batch, rules: Rules) -> tuple[Facts, list[Finding]]:
    """What is known, the later word over the earlier: the config, the set's own documents, --facts, --external."""
    known = facts(batch.environment, _images(batch))
    broken = []
    for document, place in batch.facts:
        try:
            known = facts_.of(document, known)
        except facts_.FactsError as error:
            broken += [
                Finding("yaml-readable", Severity.ERROR, None, "", f"Facts: {line}", "correct the fact", place)
                for line in str(error).splitlines()
            ]
    for document, file in rules.facts:
        try:
            known = facts_.of(document, known)
        except facts_.FactsError as error:
            said = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
            raise ConfigError(said, f"correct it in {file}") from None
    known = facts_.with_declared(known, rules.declared)
    return replace(known, kubernetes_version=rules.version or known.kubernetes_version), broken


def _images(batch: Batch) -> images.ImageLock | None:
    """The pins, which stand beside the folder of the config."""
    if batch.environment is None:
        return None
    return images.load(Path(batch.config).parent.parent / "images.lock")


def _at_line(finding: Finding, batch: Batch) -> Finding:
    if finding.source is None or finding.object is None:
        return finding
    line = batch.line_of(finding.source, finding.object, finding.pointer)
    return replace(finding, source=replace(finding.source, line=line))


def _not_canonical(batch: Batch) -> Iterator[Finding]:
    """Files of dist that are not as our writer would write them."""
    values: dict[str, list[Any]] = {name: [] for name in batch.texts}
    for manifest, source in batch.placed:
        if source is not None and source.file in values:
            values[source.file].append(manifest)
    policy = by_id()["dist-canonical"]
    for name, raw in batch.texts.items():
        if len(values[name]) != 1 or _unwritable(values[name][0]):
            continue
        text = yamlwrite.dump(values[name][0]).encode()
        if raw != text:
            pairs = zip(raw.splitlines(keepends=True), text.splitlines(keepends=True), strict=False)
            same = next((index for index, (one, other) in enumerate(pairs) if one != other), text.count(b"\n"))
            message = "is not written as synth writes it"
            place = Source(name, same + 1)
            yield Finding(policy.id, policy.severity, ObjectId.of(values[name][0]), "", message, policy.remedy, place)


def custom_kinds(dist: Path) -> list[ObjectId]:
    """One object of each custom kind in dist, by kind."""
    builtin = builtin_schemas(Cluster().kubernetes_version, kubernetes_cache())
    placed = [one for batch in gather([str(dist)], Path()) for one in batch.placed] if dist.is_dir() else []
    found = {(one.api_version, one.kind): one for one in (ObjectId.of(manifest) for manifest, _ in placed)}
    return [one for key, one in sorted(found.items()) if not builtin.knows(*key)]


def schema_folders(named: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where schemas of custom resources may be: those that are named, then where synth looks too."""
    return pipeline.schema_folders(pipeline.Request(crd_schemas=named))


def kubernetes_cache() -> Path:
    """Where prepared schemas of Kubernetes are kept."""
    return cache_root() / "kubernetes"
