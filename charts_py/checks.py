"""Everything that is checked before a byte is written: policies, schemas, waivers, and the way back from YAML."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py.known import facts
from charts_py.rendering import Judgement, Rendering
from kubekit import yamlread
from kubekit.identity import Manifest, ObjectId
from policies import waivers
from policies.model import Finding, Severity, Source
from policies.registry import all_policies
from policies.run import ordered, run
from policies.schemas import check as schemas
from policies.schemas.crds import CrdSchemas
from policies.world import World

if TYPE_CHECKING:
    # Only for types: importing the renderer starts Node.
    from charts_py.config.environment import Environment
    from charts_py.images import ImageLock


@dataclass(frozen=True)
class CheckSettings:
    """What the checks go by. `today` decides which waivers are alive."""

    crds: CrdSchemas
    require_schemas: bool
    cache: Path | None
    today: datetime.date

    @classmethod
    def none(cls) -> CheckSettings:
        """Built-in kinds only, nothing kept, and no waiver alive."""
        return cls(CrdSchemas(()), require_schemas=False, cache=None, today=datetime.date.max)


def judge(
    rendering: Rendering, environment: Environment | None, images: ImageLock, settings: CheckSettings
) -> Judgement:
    """All findings about one environment; `environment` is None for the fleet."""
    placed = [
        (one.manifest, Source(f"{rendering.name}/{one.path}", construct=one.construct)) for one in rendering.objects
    ]
    jobs = list(sample_jobs(rendering))
    findings = run(World([*placed, *jobs], facts(environment, images)))
    report = schemas.check(
        [*placed, *jobs],
        kubernetes_version=environment.cluster.kubernetes_version if environment else "1.35",
        crds=settings.crds,
        declared_unchecked=frozenset(
            environment.checks.unchecked_kinds if environment else ("argoproj.io/ApplicationSet",)
        ),
        require_all=settings.require_schemas,
        cache=settings.cache,
    )
    findings = [*findings, *report.findings, *_unread(placed, rendering.texts)]
    if environment is not None:
        findings += _chart_images(rendering, environment, images)
    return Judgement(tuple(ordered(findings)), report.coverage.checked, report.coverage.unchecked)


def sample_jobs(rendering: Rendering) -> Iterator[tuple[Manifest, Source]]:
    """A Job from each template: the example values of its contract, with the environment's own image and resources."""
    for template in rendering.job_templates:
        place = Source(f"{rendering.name}/job-templates/{template.name}.yaml", construct="job-templates")
        values = template.values("example")
        job = template.fill({name: values[name] for name in values if name not in {"image", "resources"}})
        job["metadata"]["name"] = template.name
        yield job, place


def waive(
    findings: Sequence[Finding], known: waivers.Waivers, today: datetime.date, *, complete: bool
) -> list[Finding]:
    """`complete`: the findings are those of every environment, so a waiver that covers none is dead."""
    result = waivers.apply(findings, known, today)
    return result if complete else [one for one in result if "covers nothing" not in one.message]


def summary(findings: Iterable[Finding]) -> dict[str, int]:
    """Counts by severity, and of the waived."""
    counts = Counter("waived" if one.waived else str(one.severity) for one in findings)
    return {key: counts[key] for key in (*map(str, Severity), "waived")}


def _unread(placed: Sequence[tuple[Manifest, Source]], texts: Sequence[str]) -> Iterator[Finding]:
    """What would read back as something else. The writer is tested against Go; this is the belt to the braces."""
    for (manifest, source), text in zip(placed, texts, strict=True):
        if _read_back(text) != manifest:
            yield Finding(
                "yaml-go-safe",
                Severity.ERROR,
                ObjectId.of(manifest),
                "",
                "the YAML reads back as another object",
                "this is a defect of the writer: please report the object",
                source,
            )


def _read_back(text: str) -> object:
    try:
        return yamlread.read(text, "", max_bytes=len(text) * 4, max_depth=100).value
    except yamlread.YamlProblem as problem:
        return problem


def _chart_images(rendering: Rendering, environment: Environment, images: ImageLock) -> Iterator[Finding]:
    """The images of the chart stand in its values, where no policy over objects sees them."""
    database = environment.database
    if database.kind != "bitnami":
        return
    policy = next(policy for policy in all_policies() if policy.id == "image-digest")
    application = next(
        (one for one in rendering.objects if one.id.kind == "Application" and one.id.name.endswith(database.release)),
        None,
    )
    for image in (database.image, database.metrics_image):
        if image is not None and images.digest_of(image.text) is None:
            yield Finding(
                policy.id,
                policy.severity,
                application.id if application else None,
                "",
                f"{image.text} has no digest, and must end in @sha256:...",
                policy.remedy,
                Source(f"{rendering.name}/paperclip-db/values.yaml", construct="paperclip-db"),
            )
