"""Everything that is checked before a byte is written: policies, schemas, waivers, and the way back from YAML."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from charts_py import samples
from charts_py.judging import Schemas, judged
from charts_py.known import facts
from charts_py.rendering import Judgement, Rendering
from kubekit import yamlread
from kubekit.identity import Manifest, ObjectId
from policies.model import Finding, Severity, Source
from policies.registry import all_policies
from policies.run import ordered
from policies.schemas.crds import CrdSchemas

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
    jobs = list(samples.sample_jobs(rendering.job_templates, rendering.name))
    unchecked = environment.checks.unchecked_kinds if environment else ("argoproj.io/ApplicationSet",)
    by = Schemas(settings.crds, frozenset(unchecked), settings.require_schemas, settings.cache)
    declared_in = Source(f"{rendering.name}: checks.externals")
    findings, coverage = judged(placed, jobs, facts(environment, images), by, declared_in)
    findings += _unread(placed, rendering.texts)
    if environment is not None:
        findings += _chart_images(rendering, environment, images)
    return Judgement(tuple(ordered(findings)), coverage.checked, coverage.unchecked)


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
