"""The Job of a run and its Secrets: what the API server, the policies and the next launcher find in them."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace

import kubernetes_validate
import pytest

from kubekit import names, podspec
from paperclip_launcher import marks
from paperclip_launcher.dialects.command import Command
from paperclip_launcher.dialects.opencode import OpenCode
from paperclip_launcher.errors import ConfigInvalid, LauncherError
from paperclip_launcher.handover import Extras
from paperclip_launcher.skills.bundle import HeldBundle
from paperclip_launcher.skills.pack import LIMITS
from paperclip_launcher.skills.sinks import HeldFile
from paperclip_launcher.skills.walk import LISTED
from policies.launch import judge_job
from tests.launcher.request.sample import IMAGE, RESOURCES

BUNDLE = "bundles/acme/0a1b"
LIVE_UID = "5d41402a-bc4b-4a76-b971-9d911017c592"
HELD = HeldBundle(
    "0a1b" * 16,
    (
        HeldFile(".claude/skills/big/a", b"a" * 700_000),
        HeldFile(".claude/skills/big/b", b"b" * 700_000),
        HeldFile(".claude/skills/one/SKILL.md", b"how to"),
        HeldFile(".claude/skills/one/run.sh", b"#!/bin/sh\n", runs=True),
    ),
    ("big", "one"),
)


def agent_of(made):
    (container,) = made.job["spec"]["template"]["spec"]["containers"]
    return container


def live(made):
    job = copy.deepcopy(made.job)
    job["metadata"]["uid"] = LIVE_UID
    return job


def problems(planned, **more):
    with pytest.raises(ConfigInvalid) as caught:
        planned(**more)
    assert caught.value.remedy
    return caught.value.problems


# What is sent


def test_a_job_of_each_kind_is_valid_and_no_policy_minds_it(planned, templates):
    full = {
        "model": "claude-opus-4-7",
        "labels": "zone=a\nexample.com/x=y",
        "timeoutSec": 60,
        "mcpServers": {"x": {"url": "http://x"}},
        "preRunCommand": "true",
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "program": "make",
    }
    for dialect in (None, OpenCode(), Command()):
        for skills in ({"bundle": BUNDLE}, {"extras": Extras(held=HELD)}):
            made = planned(dialect=dialect, config=full, **skills)
            kubernetes_validate.validate(made.job, "1.35", strict=True)
            assert [str(one) for one in judge_job(made.job, templates.facts)] == []
            for secret in made.secrets_for(live(made)):
                kubernetes_validate.validate(secret, "1.35", strict=True)


def test_who_the_run_is_for_stands_on_job_and_pod(planned, tree):
    tree["agent"]["id"] = "Agent/é"
    made = planned(tree)
    described, pod = made.job["metadata"], made.job["spec"]["template"]["metadata"]
    assert described["name"] == made.job_name == names.job_name("Agent/é", tree["runId"])
    assert described["annotations"]["paperclip.io/agent-id"] == "Agent/é"
    assert described["labels"]["paperclip.io/agent-id"] == names.label_value("Agent/é")
    assert described["labels"] == pod["labels"]
    assert described["annotations"]["paperclip.io/owner"] == "me"
    assert described["annotations"]["paperclip.io/adapter-type"] == "claude_k8s"
    (workspace, *_) = agent_of(made)["volumeMounts"]
    assert workspace["subPath"] == f"workspaces/{names.slug_with_hash('Agent/é')}"


def test_the_same_request_makes_the_same_job_and_shares_nothing_with_it(planned, tree):
    before = copy.deepcopy(tree)
    first, second = planned(tree, config={"labels": {"a": "b"}}), planned(tree, config={"labels": {"a": "b"}})
    assert first.job == second.job
    first.job["metadata"]["labels"]["a"] = "changed"
    first.job["spec"]["template"]["spec"]["tolerations"] = []
    assert planned(tree, config={"labels": {"a": "b"}}).job == second.job
    assert tree == before


def test_the_arguments_are_those_of_the_kind_of_agent(planned):
    made = planned(config={"model": "m", "extraArgs": ["$(id)", "it's"]})
    assert agent_of(made)["args"][8:] == ["--dangerously-skip-permissions", "--model", "m", "$$(id)", "it's"]
    assert made.arguments[-2:] == ("$(id)", "it's")
    plain = planned(dialect=Command(), config={"program": "make", "extraArgs": ["all"]})
    assert agent_of(plain)["args"][2:] == ["make", "all"]


# Secrets


def test_the_secrets_have_the_names_that_stand_in_the_job_and_go_with_it(planned):
    made = planned(config={"promptTemplate": "x" * 1_000_000})
    job = live(made)
    secrets = made.secrets_for(job)
    stem = f"{made.job_name}-x7k2m"
    assert [one["metadata"]["name"] for one in secrets] == [f"{stem}-0", f"{stem}-1", f"{stem}-env"]
    assert podspec.run_secrets(job) == (f"{stem}-0", f"{stem}-1", f"{stem}-env")
    for secret in secrets:
        assert secret["immutable"] is True
        assert secret["metadata"]["namespace"] == "paperclip-agents"
        assert secret["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": made.job_name,
                "uid": LIVE_UID,
                "blockOwnerDeletion": False,
            }
        ]
    *prompt, variables = secrets
    data = {key: base64.b64decode(value) for one in prompt for key, value in one["data"].items()}
    assert b"".join(data[key] for key in sorted(data)) == made.prompt.data
    assert base64.b64decode(variables["data"]["PAPERCLIP_API_KEY"]) == b"canary-token"


def test_an_adopted_job_gets_its_secrets_under_its_own_names(planned):
    job = json.loads(json.dumps(live(planned())).replace("x7k2m", "other"))
    assert [one["metadata"]["name"] for one in planned().secrets_for(job)] == list(podspec.run_secrets(job))


def test_a_job_that_is_sent_again_waits_for_secrets_of_other_names_and_is_the_same_else(planned):
    made = planned()
    again = made.renamed("fresh0")
    assert set(podspec.run_secrets(again)).isdisjoint(podspec.run_secrets(made.job))
    assert json.loads(json.dumps(again).replace("-fresh0-", "-x7k2m-")) == made.job


def test_a_job_of_another_prompt_gets_none(planned, tree):
    job = live(planned(config={"promptTemplate": "x" * 1_000_000}))
    with pytest.raises(LauncherError, match="made for another prompt"):
        planned().secrets_for(job)
    tree |= {"authToken": "", "config": {}, "context": {}}
    with pytest.raises(LauncherError, match="other variables"):
        planned(tree).secrets_for(live(planned()))


def test_the_files_of_a_run_lie_beside_its_prompt(planned):
    made = planned(
        config={
            "mcpServers": {"x": {"env": {"T": "canary-mcp"}}},
            "preRunCommand": "make",
            "toolOutputLimitBytes": 100,
        },
        extras=Extras(instructions="Be kind."),
    )
    (data,) = made._prompt_data
    assert sorted(data) == ["instructions.md", "mcp.json", "part-0000", "pre-run", "settings.json", "toolfilter.js"]
    assert json.loads(data["mcp.json"]) == {"mcpServers": {"x": {"env": {"T": "canary-mcp"}}}}
    assert data["pre-run"] == b"make"
    assert (
        "node /run/paperclip/prompt/toolfilter.js 100"
        in json.loads(data["settings.json"])["hooks"]["PostToolUse"][0]["hooks"][0]["command"]
    )
    told = dict(zip(made.arguments, made.arguments[1:], strict=False))
    assert told["--mcp-config"] == "/run/paperclip/prompt/mcp.json"
    assert told["--settings"] == "/run/paperclip/prompt/settings.json"
    assert told["--append-system-prompt-file"] == "/run/paperclip/prompt/instructions.md"
    assert "canary-mcp" in made.secret_values
    assert "canary" not in json.dumps(made.job)


def test_only_an_agent_that_can_has_its_tools_cut(planned):
    made = planned(dialect=OpenCode(), config={"toolOutputLimitBytes": 100})
    assert "settings.json" not in made._prompt_data[0]
    assert "toolOutputLimitBytes is left out" in made.notes[0]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"promptTemplate": "x" * ((16 << 20) + 1)}, "the prompt has 16777217 bytes; at most 16777216"),
        ({"preRunCommand": "x" * 800_000}, "pre-run has 800000 bytes; at most 716800"),
    ],
)
def test_what_is_too_large_to_hand_over_is_told(planned, config, sentence):
    (told,) = problems(planned, config=config, context={"paperclipWake": {}})
    assert told.startswith(sentence)


# Skills and sessions


def test_a_bundle_is_mounted_read_only_and_named(planned):
    made = planned(bundle=BUNDLE, extras=Extras(instructions_in_bundle=True))
    assert {"name": "workspace", "mountPath": "/run/paperclip/bundle", "subPath": BUNDLE, "readOnly": True} in agent_of(
        made
    )["volumeMounts"]
    assert made.arguments[-2:] == ("--add-dir", "/run/paperclip/bundle")
    assert "/run/paperclip/bundle/agent-instructions.md" in made.arguments
    assert made.bundle_key == "0a1b"


def test_a_bundle_without_the_claim_travels_in_secrets_of_the_run(planned):
    made = planned(extras=Extras(held=HELD))
    job = live(made)
    stem = f"{made.job_name}-x7k2m"
    secrets = made.secrets_for(job)
    assert [one["metadata"]["name"] for one in secrets] == [f"{stem}-0", f"{stem}-b0", f"{stem}-b1", f"{stem}-env"]
    assert podspec.run_secrets(job) == tuple(one["metadata"]["name"] for one in secrets)
    data = {one["metadata"]["name"]: one["data"] for one in secrets}
    there = {
        item["path"]: (base64.b64decode(data[one["name"]][item["key"]]), item.get("mode"))
        for one in podspec.bundle_secrets(job)
        for item in one["items"]
    }
    top = HELD.key[:16]
    assert there == {f"{top}/{one.path}": (one.content, 0o755 if one.runs else None) for one in HELD.files}
    mounts = [one for one in agent_of(made)["volumeMounts"] if one["mountPath"] == "/run/paperclip/bundle"]
    assert mounts == [{"name": "bundle", "mountPath": "/run/paperclip/bundle", "subPath": top, "readOnly": True}]
    assert made.arguments[-2:] == ("--add-dir", "/run/paperclip/bundle")
    assert made.bundle_key == HELD.key


def test_a_run_without_skills_has_neither_a_volume_nor_a_secret_for_them(planned):
    plain = planned()
    keyed = planned(extras=Extras(instructions="Be kind.", held=HeldBundle(HELD.key)))
    for made in (plain, keyed):
        assert "bundle" not in json.dumps(made.job["spec"]["template"]["spec"]["volumes"])
        assert "--add-dir" not in made.arguments
        assert len(made.secrets_for(live(made))) == 2
    assert (plain.bundle_key, keyed.bundle_key) == ("", HELD.key)


def test_a_job_of_other_skills_gets_no_secrets(planned):
    """Its volume would put this run's files into the places of those it was made with."""
    job = live(planned(extras=Extras(held=HELD)))
    changed = replace(HELD, key="1b0a" * 16)
    for other in (planned(), planned(extras=Extras(held=changed))):
        with pytest.raises(LauncherError, match="made for other skills"):
            other.secrets_for(job)
    with pytest.raises(LauncherError, match="made for other skills"):
        planned(extras=Extras(held=HELD)).secrets_for(live(planned()))


def test_an_adopted_job_gets_its_skills_under_its_own_names(planned):
    job = json.loads(json.dumps(live(planned(extras=Extras(held=HELD)))).replace("x7k2m", "other"))
    secrets = planned(extras=Extras(held=HELD)).secrets_for(job)
    assert [one["metadata"]["name"] for one in secrets] == list(podspec.run_secrets(job))
    assert any("-other-b1" in one["metadata"]["name"] for one in secrets)


def test_skills_are_forgotten_once_their_secrets_are_made(planned):
    spent = planned(extras=Extras(held=HELD)).spent()
    assert (spent.bundle_key, spent._parcels) == (HELD.key, ())


def test_as_many_skills_as_may_come_fit_into_a_job(planned):
    paths = [f"{'.claude/skills/many/'.ljust(59, 'd')}/{number:04}" for number in range(768)]
    assert sum(len(path) + LISTED for path in paths) == LIMITS.listed
    files = tuple(HeldFile(path, path.encode()) for path in paths)
    made = planned(extras=Extras(held=HeldBundle("ab" * 32, files, ("many",))))
    assert 50_000 < len(json.dumps(made.job)) < 150_000
    (_, bundle, _) = made.secrets_for(live(made))
    assert len(bundle["data"]) == 768
    files = (replace(files[0], path=f"{files[0].path}d"), *files[1:])
    (told,) = problems(planned, extras=Extras(held=HeldBundle("ab" * 32, files, ("many",))))
    assert told.startswith("bundle_sources has")


SESSIONS = [
    (None, "s", "s", ""),
    ({"sessionId": "p"}, "s", "p", ""),
    ({"sessionId": "p", "cwd": "/workspace/project"}, None, "p", ""),
    ({"sessionId": "p", "cwd": "/paperclip"}, None, "", "was made in /paperclip"),
    ({"session_id": "p", "promptBundleKey": "0a1b"}, None, "p", ""),
    ({"sessionId": "p", "promptBundleKey": "old"}, None, "", "skills or instructions have changed"),
    ({"cwd": "/x"}, None, "", ""),
    ({"sessionId": "--evil"}, None, "", ""),
    (None, None, "", ""),
]


@pytest.mark.parametrize(("params", "session", "wanted", "note"), SESSIONS)
def test_a_session_goes_on_only_where_it_fits(planned, tree, params, session, wanted, note):
    tree["runtime"] |= {"sessionParams": params, "sessionId": session}
    made = planned(tree, bundle=BUNDLE)
    assert made.session_id == wanted
    assert ("--resume" in made.arguments) is bool(wanted)
    assert made.job["metadata"]["annotations"].get("paperclip.io/session-id", "") == wanted
    assert note in " ".join(made.notes)
    assert bool(note) is bool(made.notes)


def test_a_plain_program_has_no_session(planned, tree):
    tree["runtime"]["sessionId"] = "s"
    assert planned(tree, dialect=Command(), config={"program": "make"}).session_id == ""


# Where and how it runs


@pytest.mark.parametrize(
    ("config", "workspace", "wanted"),
    [
        ({}, "/srv/w", "/workspace/project"),
        ({}, "/workspace/other/", "/workspace/other"),
        ({"cwd": "/workspace/mine"}, "/srv/w", "/workspace/mine"),
        ({"cwd": "mine/./x"}, None, "/workspace/mine/x"),
        ({"cwd": "/workspace/mine"}, "/workspace/theirs", "/workspace/theirs"),
        ({}, "/workspace/../etc", "/workspace/project"),
        ({}, "/workspaces", "/workspace/project"),
    ],
)
def test_the_working_directory(planned, config, workspace, wanted):
    made = planned(config=config, context={"paperclipWorkspace": {"cwd": workspace}})
    assert made.cwd == agent_of(made)["args"][1] == wanted


@pytest.mark.parametrize("cwd", ["/etc", "../x", "/workspace/../etc", "/workspaces/x"])
def test_a_working_directory_outside_is_told(planned, cwd):
    assert "outside of the workspace /workspace" in problems(planned, config={"cwd": cwd})[0]


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, 4 * 3600),
        ({"timeoutSec": 600}, 600 + 60 + 600 + 60),
        ({"timeoutSec": 600, "graceSec": 0, "scheduleTimeoutSec": 10}, 670),
        ({"timeoutSec": 7 * 86400}, 7 * 86400),
    ],
)
def test_kubernetes_ends_a_run_only_after_the_launcher_should_have(planned, config, wanted):
    assert planned(config=config).job["spec"]["activeDeadlineSeconds"] == wanted


def test_a_timeout_beyond_the_environments_is_told(planned):
    (told,) = problems(planned, config={"timeoutSec": 7 * 86400 + 1})
    assert told == "timeoutSec is 604801; the environment's longest run is 604800"


RESOURCE_CASES = [
    ({}, RESOURCES),
    ({"limits.memory": "8Gi"}, {"limits": {"memory": "8Gi"}}),
    ({"limits.memory": "512Mi"}, {"limits": {"memory": "512Mi"}, "requests": {"memory": "512Mi"}}),
    ({"requests.memory": "6Gi"}, {"limits": {"memory": "6Gi"}, "requests": {"memory": "6Gi"}}),
    ({"limits.nvidia.com/gpu": 1}, {"limits": {"nvidia.com/gpu": "1"}}),
]


@pytest.mark.parametrize(("said", "changes"), RESOURCE_CASES)
def test_resources_are_the_environments_with_what_was_said(planned, said, changes):
    made = planned(config={f"resources.{key}": value for key, value in said.items()})
    wanted = {part: {**RESOURCES[part], **changes.get(part, {})} for part in RESOURCES}
    assert agent_of(made)["resources"] == wanted


def test_a_request_beyond_its_limit_is_told(planned):
    config = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}}
    assert problems(planned, config=config) == ("resources.requests.cpu is 2, more than its limit of 1500m",)


def test_what_only_the_environment_sets_is_told_with_its_place(planned):
    wrong = {
        "namespace": "default",
        "serviceAccountName": "admin",
        "imagePullPolicy": "Always",
        "kubeconfig": "/root/.kube/config",
    }
    told = problems(planned, config=wrong)
    assert [one.split()[0] for one in told] == list(wrong)
    same = {"namespace": "paperclip-agents", "serviceAccountName": "paperclip-agent-runner"}
    assert planned(config={**same, "imagePullPolicy": "IfNotPresent"})


def test_a_runtime_class_is_the_runs_where_the_environment_has_none(planned, templates):
    pod = planned(config={"runtimeClassName": "gvisor"}).job["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "gvisor"


def test_scheduling_is_handed_on(planned):
    config = {"queueName": "agents", "nodeSelector": "a=b", "tolerations": '[{"key": "x", "operator": "Exists"}]'}
    job = planned(config={**config, "priorityClassName": "high", "image": "ghcr.io/example/other:1"}).job
    pod = job["spec"]["template"]["spec"]
    assert (job["spec"]["suspend"], job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]) == (True, "agents")
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"a": "b"}, "high")
    assert pod["tolerations"] == [{"key": "x", "operator": "Exists"}]
    assert pod["containers"][0]["image"] == "ghcr.io/example/other:1"


def test_labels_of_the_user_never_replace_those_of_the_environment(planned):
    made = planned(config={"labels": {"team": "mine", "zone": "a"}})
    for described in (made.job["metadata"], made.job["spec"]["template"]["metadata"]):
        assert (described["labels"]["team"], described["labels"]["zone"]) == ("ops", "a")
    assert made.notes == ("labels: team is left out, since the environment sets it",)


# Refusals


def test_every_problem_is_told_at_once_in_words_of_the_config(planned):
    config = {
        "namespace": "default",
        "cwd": "/etc",
        "env": {"GH_TOKEN": "x", "A": "\0"},
        "tolerations": [{"key": "x", "operator": "Maybe"}],
        "nodeSelector": {"a": "b", **{f"k{n}": "v" for n in range(16)}},
        "extraArgs": ["x" * 98_305],
        "queueName": "a.b",
        "jobTemplate": "claude",
    }
    told = problems(planned, config=config)
    assert sorted(one.split()[0].split("[")[0].rstrip(":") for one in told) == [
        *("cwd", "env", "env", "extraArgs", "namespace", "nodeSelector", "queueName", "tolerations")
    ]  # fmt: skip
    assert not any("xxx" in one for one in told)


@pytest.mark.parametrize(
    ("key", "config"),
    [
        ("extraArgs", {"extraArgs": ["--token", "ghp_" + "a" * 36]}),
        ("preRunCommand", {"preRunCommand": "git clone https://u:p@git.example.com/x"}),
        ("mcpServers", {"mcpServers": {"github": {"env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "x"}}}}),
        ("mcpServers", {"mcpServers": {"github": {"args": ["glpat-" + "a" * 20]}}}),
    ],
)
def test_credentials_of_git_are_refused_wherever_they_stand(planned, key, config):
    (told,) = problems(planned, config=config)
    assert told.startswith(f"{key} holds what looks like a credential of git")
    assert planned(config={**config, "allowGitCredentials": key})


def test_a_reference_to_a_variable_is_no_credential(planned):
    assert planned(config={"mcpServers": {"github": {"env": {"GITHUB_TOKEN": "${MY_TOKEN}"}}}})


def test_a_template_that_is_not_there_is_told(planned):
    with pytest.raises(ConfigInvalid, match="no Job template 'big'; there are claude, generic"):
        planned(config={"jobTemplate": "big"})


def test_a_job_that_cannot_be_stored_is_told(planned):
    labels = {f"example.com/{number:060}": "x" * 63 for number in range(6000)}
    assert "and fewer than 1048576 can be stored" in problems(planned, config={"labels": labels})[0]


@pytest.mark.parametrize("nonce", ["", "A", "a-b", "a" * 17])
def test_a_nonce_that_is_none_is_a_defect(templates, planned, nonce):
    from paperclip_launcher.dialects.claude import Claude
    from paperclip_launcher.manifest import plan
    from paperclip_launcher.options import RunOptions
    from paperclip_launcher.request import RunRequest

    with pytest.raises(ValueError, match="no nonce"):
        plan(RunRequest("r", "a"), RunOptions(), Claude(), templates, owner="me", nonce=nonce)


def test_the_image_is_the_environments_unless_another_is_named(planned):
    assert agent_of(planned())["image"] == IMAGE
    (told,) = problems(planned, config={"image": "an image"})
    assert told.startswith("image is 'an image'")


def test_a_run_without_a_task_has_its_key_on_the_job_and_no_task(planned, tree):
    tree["context"] = {}
    tree["runtime"]["taskKey"] = "__heartbeat__"
    made = planned(tree=tree)
    assert marks.task(made.job) == "__heartbeat__"
    assert "__heartbeat__" not in json.dumps(made.job["spec"])
    assert marks.annotation(planned().job, marks.TASK_KEY) == ""
    assert marks.task(planned().job) == "i-1"
