"""What a run is given of the launcher's own machine: skills, instructions, variables."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from kubekit import podspec
from kubekit.names import job_name
from paperclip_launcher.launcher import dialect_of
from paperclip_launcher.options import RunOptions
from paperclip_launcher.provision import Stock, is_wanted, provide
from paperclip_launcher.request import RunRequest
from paperclip_launcher.skills.bundle import BundleFailed
from paperclip_launcher.templates import Templates
from tests.launcher.core.stage import templates
from tests.launcher.serve.program import cluster
from tests.launcher.serve.test_main import Connection, play, served
from tests.launcher.serve.test_runs import context


@pytest.fixture
def host(tmp_path):
    """A machine with a skill and instructions, and the claim."""
    skill = tmp_path / "host" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("how to")
    (tmp_path / "host" / "AGENTS.md").write_text("be kind")
    (tmp_path / "claim").mkdir()
    return tmp_path


def config(host, **more):
    return {
        "paperclipRuntimeSkills": [{"key": "a/one", "runtimeName": "one", "source": str(host / "host/skills/one")}],
        "paperclipSkillSync": {"desiredSkills": ["a/one"]},
        "instructionsFilePath": str(host / "host" / "AGENTS.md"),
        **more,
    }


def provided(tree, stock):
    request = RunRequest.of(context(**tree))
    dialect = dialect_of("claude_k8s")
    options = RunOptions.of(request.config, dialect)
    return provide(request, options, dialect, templates(), stock, now=1_000_000.0)


def test_skills_and_instructions_are_one_folder_of_the_claim(host):
    found = provided(config(host), Stock(host / "claim", (str(host / "host"),)))
    assert found.bundle.startswith("bundles/company-1/")
    folder = host / "claim" / found.bundle
    assert (folder / ".claude/skills/one/SKILL.md").read_text() == "how to"
    assert (folder / "agent-instructions.md").read_text() == "be kind"
    assert found.extras.instructions_in_bundle
    assert found.notes == ()


def test_without_the_claim_the_same_bundle_travels_with_the_run(host):
    """A session that was made with the claim goes on without it, and the other way round."""
    with_claim = provided(config(host), Stock(host / "claim", (str(host / "host"),)))
    found = provided(config(host), Stock(None, (str(host / "host"),)))
    assert (found.bundle, found.notes, found.extras.instructions_in_bundle) == ("", (), True)
    held = found.extras.held
    assert held.key == with_claim.bundle.rpartition("/")[2]
    assert {one.path: one.content for one in held.files} == {
        ".claude/skills/one/SKILL.md": b"how to",
        "agent-instructions.md": b"be kind",
    }


def test_without_the_claim_instructions_that_stand_alone_go_with_the_prompt(host):
    """Their runs need no Secret more, and what a session remembers is the same."""
    alone = config(host, paperclipSkillSync={"desiredSkills": []})
    found = provided(alone, Stock(None, (str(host / "host"),)))
    assert (found.extras.instructions, found.extras.instructions_in_bundle) == ("be kind", False)
    assert found.extras.held.files == ()
    with_claim = provided(alone, Stock(host / "claim", (str(host / "host"),)))
    assert found.extras.held.key == with_claim.bundle.rpartition("/")[2]
    (host / "host" / "MORE.md").write_text("more")
    beside = provided(alone, Stock(None, (str(host / "host"),)))
    assert {one.path for one in beside.extras.held.files} == {"agent-instructions.md", "instructions/MORE.md"}


def test_skills_that_templates_of_before_cannot_take_are_missed_aloud(host):
    request = RunRequest.of(context(**config(host)))
    dialect = dialect_of("claude_k8s")
    found = provide(
        request,
        RunOptions.of(request.config, dialect),
        dialect,
        _of_before(),
        Stock(None, (str(host / "host"),)),
        now=1.0,
    )
    assert found.notes == ("skills are left out, since the Job templates are older than the launcher: one",)
    assert (found.extras.held.files, found.extras.instructions_in_bundle) == ((), False)


def _of_before() -> Templates:
    """Templates that know the claim alone."""
    new = templates().get("claude").job
    contract, job = json.loads(new.contract.text), json.loads(new.job)
    for name in ("bundle_folder", "bundle_sources"):
        del contract["placeholders"][name]
    pod = job["spec"]["template"]["spec"]
    for part, name in ((pod, "volumes"), (pod["containers"][0], "volumeMounts")):
        part[name] = [one for one in part[name] if one["name"] != "bundle"]
    tree = {"name": "claude", "job": job, "placeholders": dict(new.bounds)}
    return Templates.of({"claude": tree, "contract": contract})


def test_what_a_run_would_get_is_told_without_writing_to_the_claim(host):
    stock = Stock(host / "claim", (str(host / "host"),))
    seen = provided(config(host), replace(stock, writes=False))
    assert not list((host / "claim").iterdir())
    assert seen == provided(config(host), stock)


def test_nothing_comes_from_outside_of_the_allowed_folders(host):
    found = provided(config(host), Stock(host / "claim", (str(host / "claim"),)))
    assert found.bundle == ""
    assert found.extras.instructions == ""
    assert len(found.notes) == 2
    assert all("is outside of" in one for one in found.notes)


def test_only_variables_that_are_named_are_passed_on(host):
    stock = Stock(environment={"ANTHROPIC_API_KEY": "k", "DATABASE_URL": "d"})
    found = provided({"inheritEnv": ["ANTHROPIC_API_KEY", "MISSING"]}, stock)
    assert found.extras.inherited == {"ANTHROPIC_API_KEY": "k"}
    assert "DATABASE" not in repr(found)


def test_a_claim_that_cannot_be_written_fails_the_run(host):
    with pytest.raises(BundleFailed):
        provided(config(host), Stock(host / "none", (str(host / "host"),)))


def test_most_runs_need_nothing_of_the_machine(host):
    dialect = dialect_of("claude_k8s")
    assert not is_wanted(RunOptions.of({}, dialect))
    assert is_wanted(RunOptions.of(config(host), dialect))


def test_a_run_by_the_protocol_sees_its_skills(host):
    stock = Stock(host / "claim", (str(host / "host"),))

    async def scene():
        fake = cluster()
        async with served(host, fake, stock=stock), Connection(host / "s") as client:
            ask = {"context": context(**config(host))}
            answer = await client.ask({"jsonrpc": "2.0", "id": 2, "method": "run.execute", "params": ask})
            job = fake.get("jobs", job_name("agent-1", "run-1"))
        return answer["result"]["result"], job["spec"]["template"]["spec"]["containers"][0]

    result, container = play(scene)
    mount = next(one for one in container["volumeMounts"] if str(one.get("subPath")).startswith("bundles/"))
    assert ["--add-dir", mount["mountPath"]] == container["args"][-2:] or mount["mountPath"] in container["args"]
    assert f"{mount['mountPath']}/agent-instructions.md" in container["args"]
    assert result["sessionParams"]["promptBundleKey"] == mount["subPath"].rpartition("/")[2]


def test_a_run_by_the_protocol_sees_its_skills_without_the_claim_as_well(host):
    made = []

    async def scene():
        fake = cluster()
        async with served(host, fake, stock=Stock(None, (str(host / "host"),))), Connection(host / "s") as client:
            ask = {"context": context(**config(host))}
            answer = await client.ask({"jsonrpc": "2.0", "id": 2, "method": "run.execute", "params": ask})
            job = fake.get("jobs", job_name("agent-1", "run-1"))
            made.extend(fake.get("secrets", name) for name in podspec.run_secrets(job))
        return answer["result"]["result"], job

    result, job = play(scene)
    (bundle,) = podspec.bundle_secrets(job)
    (secret,) = [one for one in made if one["metadata"]["name"] == bundle["name"]]
    top = result["sessionParams"]["promptBundleKey"][:16]
    assert {item["path"]: base64.b64decode(secret["data"][item["key"]]) for item in bundle["items"]} == {
        f"{top}/.claude/skills/one/SKILL.md": b"how to",
        f"{top}/agent-instructions.md": b"be kind",
    }
    container = job["spec"]["template"]["spec"]["containers"][0]
    mount = next(one for one in container["volumeMounts"] if one["name"] == "bundle")
    assert mount["subPath"] == top
    assert mount["mountPath"] in container["args"]
    assert f"{mount['mountPath']}/agent-instructions.md" in container["args"]
