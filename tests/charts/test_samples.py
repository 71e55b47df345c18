"""Sample Jobs: three of each template, coherent in themselves, and one voice for all three."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from charts_py import samples
from kubekit import names, podspec
from kubekit.identity import ObjectId
from kubekit.jobtemplate import TemplateError
from policies.facts import Facts
from policies.model import Finding, Severity, Source
from policies.run import run
from policies.world import World

DIST = Path(__file__).parents[2] / "dist"
ENVIRONMENTS = sorted(path.parent.name for path in DIST.glob("*/job-templates"))


@pytest.fixture(scope="module")
def jobs():
    return list(samples.sample_jobs(samples.templates_in(DIST / "frank-2026-08"), "frank-2026-08"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_template_has_three_samples(environment):
    templates = samples.templates_in(DIST / environment)
    found = list(samples.sample_jobs(templates, environment))
    assert len(found) == 3 * len(templates) > 0
    assert len({ObjectId.of(job) for job, _ in found}) == len(found)
    assert {place.file for _, place in found} == {f"{environment}/job-templates/{one.name}.yaml" for one in templates}
    assert all((DIST / place.file).is_file() for _, place in found)


def test_a_sample_is_what_the_launcher_would_make(jobs):
    for job, _ in jobs:
        described, template = job["metadata"], job["spec"]["template"]
        run_id = described["annotations"]["paperclip.io/run-id"]
        assert described["labels"]["paperclip.io/run-id"] == names.label_value(run_id)
        assert template["metadata"]["labels"]["paperclip.io/run-id"] == names.label_value(run_id)
        agent_id = described["annotations"]["paperclip.io/agent-id"]
        assert described["name"] == names.job_name(agent_id, run_id)
        mounts = template["spec"]["containers"][0]["volumeMounts"]
        assert f"workspaces/{names.slug_with_hash(agent_id)}" in {one.get("subPath") for one in mounts}


def test_the_sizes_are_far_apart(jobs):
    sizes = [len(json.dumps(job)) for job, _ in jobs]
    assert sizes[1] < sizes[0] < 20_000
    assert sizes[2] > 500_000


def test_the_image_and_the_resources_are_those_of_the_environment(jobs):
    for template in samples.templates_in(DIST / "frank-2026-08"):
        kept = template.placeholders
        for job, place in jobs:
            if Path(place.file).stem == template.name:
                (container,) = job["spec"]["template"]["spec"]["containers"]
                assert container["image"] == kept["image"].default
                assert container["resources"] == kept["resources"].default


def test_what_a_run_brings_along_exists(jobs):
    known = samples.with_externals(Facts(registries=("ghcr.io",)), (job for job, _ in jobs))
    assert known.registries == ("ghcr.io",)
    for job, _ in jobs:
        secrets = podspec.run_secrets(job)
        assert podspec.prompt_secrets(job) == secrets[: len(podspec.prompt_secrets(job))]
        assert all(secret.startswith(f"{job['metadata']['name']}-sample-") for secret in secrets)
        assert all(known.external("Secret", "paperclip-agents", secret) for secret in secrets)


def finding(job, place, pointer="/spec", message="is wrong"):
    return Finding("job-ttl", Severity.ERROR, ObjectId.of(job), pointer, message, source=place)


def test_three_samples_say_a_thing_once(jobs):
    found = [finding(job, place) for job, place in jobs]
    told = samples.of_templates(found, jobs)
    assert [str(one.object) for one in told] == ["Job paperclip-agents/claude", "Job paperclip-agents/generic"]


def test_an_item_that_has_moved_is_the_same_item(jobs):
    first = [(job, place) for job, place in jobs if place == jobs[0][1]]
    found = [finding(job, place, f"/env/{index}/value") for index, (job, place) in enumerate(first)]
    assert [one.pointer for one in samples.of_templates(found, jobs)] == ["/env/0/value"]


def test_what_only_one_sample_shows_is_told(jobs):
    job, place = jobs[2]
    name = job["metadata"]["name"]
    (told,) = samples.of_templates([finding(job, place, message=f"the name {name} is long")], jobs)
    assert (told.object.name, told.message) == ("claude", "the name claude is long")


def test_other_objects_keep_their_findings(jobs):
    other = Finding("a", Severity.INFO, ObjectId("v1", "Pod", "b", "c"), "", "d", source=Source("e"))
    nowhere = replace(other, object=None)
    assert samples.of_templates([other, nowhere, other], jobs) == [other, nowhere, other]


def test_the_samples_of_what_is_shipped_have_no_findings_of_their_own():
    for environment in ENVIRONMENTS:
        found = list(samples.sample_jobs(samples.templates_in(DIST / environment), environment))
        known = samples.with_externals(Facts(), (job for job, _ in found))
        told = samples.of_templates(run(World(found, known)), found)
        assert [one for one in told if one.policy.startswith("job-")] == []


@pytest.mark.parametrize(
    "files",
    [
        {"a.yaml": b"name: a\njob: {}\n"},
        {"contract.yaml": b"placeholders: {}\n", "a.yaml": b"- 1\n"},
        {"contract.yaml": b"placeholders: {}\n", "a.yaml": b"name: b\njob: {}\n"},
        {"contract.yaml": b"placeholders: {}\n", "a.yaml": b"name: a\njob: 1\n"},
        {"contract.yaml": b"placeholders: {}\n", "a.yaml": b'name: a\njob: {a: "@{b}"}\n'},
        {"contract.yaml": b"[]\n", "a.yaml": b"name: a\njob: {}\n"},
    ],
    ids=["no contract", "a list", "another name", "no job", "not in the contract", "no such contract"],
)
def test_templates_that_are_none_are_refused(files):
    with pytest.raises(TemplateError):
        samples.read_templates(files)


def test_a_folder_without_templates_has_none(tmp_path):
    assert samples.templates_in(tmp_path) == ()
    assert samples.read_templates({"README.md": b"#"}) == ()
