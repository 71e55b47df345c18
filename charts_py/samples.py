"""Jobs as the launcher will make them: from each template, with its smallest, its example and its largest values.

They stand in no file, and yet they are what runs: so they are judged among the objects of their environment, at synth
and when its folder is checked. What a finding says of a sample, it says of the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from kubekit import names, podspec, yamlread
from kubekit.identity import Manifest, ObjectId
from kubekit.jobtemplate import Contract, JobTemplate, TemplateError
from policies.facts import External, Facts
from policies.model import Finding, Source

FOLDER = "job-templates"
"""Beside the stacks of an environment in dist: the templates for people, and the contract."""
SIZES: tuple[Literal["example", "smallest", "largest"], ...] = ("example", "smallest", "largest")
"""The order in which samples speak: what two of them say is said of the first."""

_CONSTRUCT = "job-templates"
_CONTRACT, _FACTS = "contract.yaml", "facts.yaml"
_LARGEST = 4 << 20  # bytes
# The environment sets them, and its own are judged; those of the contract are of no cluster in particular.
_OF_ENVIRONMENT = frozenset({"image", "resources", "priority_class"})
_LABELS = ("run", "agent", "company", "task", "session")
_INDEX = re.compile(r"/[0-9]+(?=/|$)")


def sample_jobs(templates: Iterable[JobTemplate], folder: str = "") -> Iterator[tuple[Manifest, Source]]:
    """(Job, where its template stands); `folder` is that of the environment, as the sources of its objects begin.

    Each sample is a run of its own, with a name, labels and Secrets made from its ids as the launcher makes them.
    """
    for template in templates:
        place = source_of(template.name, folder)
        for size in SIZES:
            yield template.fill(_run(template, size)), place


def source_of(template: str, folder: str = "") -> Source:
    """Where a template stands in dist."""
    path = "/".join(part for part in (folder, FOLDER, f"{template}.yaml") if part)
    return Source(path, construct=_CONSTRUCT)


def with_externals(known: Facts, jobs: Iterable[Manifest]) -> Facts:
    """`known`, and what exists for the time of a run alone."""
    return replace(known, externals=(*known.externals, *externals(jobs)))


def externals(jobs: Iterable[Manifest]) -> tuple[External, ...]:
    """The Secrets that the launcher makes for each sample; what is in them is the run's."""
    return tuple(
        External("Secret", str(job["metadata"].get("namespace", "")), name)
        for job in jobs
        for name in podspec.run_secrets(job)
    )


def of_templates(findings: Iterable[Finding], jobs: Sequence[tuple[Manifest, Source]]) -> list[Finding]:
    """Findings about samples as findings about their templates, each said once; all others as they are.

    A template's finding stands under Job <namespace>/<template>, which is how a waiver names it. List items of two
    samples count as the same item where policy and message are the same: an absent variable moves all after it.
    """
    ranks = {ObjectId.of(job): rank for rank, (job, _) in enumerate(jobs)}
    result: list[Finding] = []
    said: set[tuple[object, ...]] = set()
    for one in sorted(findings, key=lambda one: ranks.get(one.object, -1) if one.object else -1):
        if one.object is None or one.object not in ranks:
            result.append(one)
            continue
        place = jobs[ranks[one.object]][1]
        template = Path(place.file).stem
        message = one.message.replace(one.object.name, template)
        identity = (one.policy, place, _INDEX.sub("/*", one.pointer), message)
        if identity not in said:
            said.add(identity)
            result.append(replace(one, object=replace(one.object, name=template), message=message))
    return result


def read_templates(files: Mapping[str, bytes]) -> tuple[JobTemplate, ...]:
    """The templates of an environment from its folder `job-templates`: file name to content.

    Raises TemplateError for what is no template, YamlProblem for what is no YAML.
    """
    trees = {name: _tree(name, raw) for name, raw in files.items() if name.endswith(".yaml") and name != _FACTS}
    if not trees:
        return ()
    if _CONTRACT not in trees:
        raise TemplateError(FOLDER, (f"holds no {_CONTRACT}",))
    contract = Contract.of(trees.pop(_CONTRACT), _CONTRACT)
    return tuple(_template(name, tree, contract) for name, tree in sorted(trees.items()))


def templates_in(folder: Path) -> tuple[JobTemplate, ...]:
    """The same from the folder of an environment in dist; () where it has none. Raises as read_templates, OSError."""
    place = folder / FOLDER
    if not place.is_dir():
        return ()
    return read_templates({path.name: path.read_bytes() for path in sorted(place.iterdir()) if path.is_file()})


def _tree(name: str, raw: bytes) -> Any:
    return yamlread.read(raw, f"{FOLDER}/{name}", max_bytes=_LARGEST).value


def _template(name: str, tree: Any, contract: Contract) -> JobTemplate:
    if not isinstance(tree, dict) or not {"name", "job"} <= set(tree) <= {"name", "job", "placeholders"}:
        raise TemplateError(f"{FOLDER}/{name}", ('must be a map of "name", "placeholders" and "job"',))
    if tree["name"] != name.removesuffix(".yaml"):
        raise TemplateError(f"{FOLDER}/{name}", (f"holds the template {tree['name']!r}; the file must be named so",))
    if not isinstance(tree["job"], dict) or not isinstance(tree.get("placeholders") or {}, dict):
        raise TemplateError(f"{FOLDER}/{name}", ("job and placeholders must be maps",))
    return JobTemplate.of(tree["name"], tree["job"], contract, tree.get("placeholders") or {})


def _run(template: JobTemplate, size: Literal["example", "smallest", "largest"]) -> dict[str, Any]:
    """Values of `size` that belong together: those of the contract are each made for itself."""
    values = {name: value for name, value in template.values(size).items() if name not in _OF_ENVIRONMENT}
    # Two templates share the contract's run, and two Jobs of one set must not share a name.
    longest = len(values["run_id"]) if size == "largest" else 0
    values["run_id"] = f"{template.name}-{size}".ljust(longest, "$")
    for what in _LABELS:
        if f"{what}_id" in values:
            values[f"{what}_label"] = names.label_value(values[f"{what}_id"])
    values["job_name"] = names.job_name(values["agent_id"], values["run_id"])
    values["workspace_subpath"] = f"workspaces/{names.slug_with_hash(values['agent_id'])}"
    parts = range(len(values["prompt_sources"]))
    values["prompt_sources"] = [f"{values['job_name']}-sample-{part}" for part in parts]
    for part, source in enumerate(values.get("bundle_sources", ())):
        source["name"] = f"{values['job_name']}-sample-b{part}"
    if "env_from_secret" in values:
        values["env_from_secret"] = f"{values['job_name']}-sample-env"
    return values
