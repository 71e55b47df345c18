"""The config as a whole: leniently read, and every problem told at once."""

from __future__ import annotations

import pytest

from paperclip_launcher.dialects.claude import Claude
from paperclip_launcher.dialects.command import Command
from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.options import DEFAULT_PROMPT, RunOptions, Skill, is_reserved, match_skill


def of(config, dialect=None):
    return RunOptions.of(config, dialect or Claude())


def problems(config, dialect=None):
    with pytest.raises(ConfigInvalid) as caught:
        of(config, dialect)
    assert caught.value.code == "k8s_config_invalid"
    assert caught.value.remedy
    return caught.value.problems


@pytest.mark.parametrize(
    "config", [{}, dict.fromkeys(("model", "timeoutSec", "labels", "env", "resources", "tolerations"), "")]
)
def test_nothing_said_is_the_defaults(config):
    options = of(config)
    assert options == RunOptions()
    assert (options.schedule_timeout_seconds, options.grace_seconds, options.ttl_seconds) == (600, 60, 300)
    assert (options.concurrency, options.skip_permissions, options.prompt_template) == (
        "reattach",
        True,
        DEFAULT_PROMPT,
    )
    assert options.tolerations is options.node_selector is None


def test_all_that_can_be_said():
    options = of(
        {
            "model": "claude-opus-4-7",
            "effort": "high",
            "maxTurnsPerRun": "40",
            "timeoutSec": 600,
            "graceSec": 5,
            "scheduleTimeoutSec": "30",
            "dangerouslySkipPermissions": False,
            "extraArgs": ["--x", "a b"],
            "image": "ghcr.io/example/agent:2",
            "nodeSelector": "disktype=ssd",
            "tolerations": '[{"operator": "Exists"}]',
            "labels": {"team": "blue"},
            "priorityClassName": "high",
            "queueName": "agents",
            "ttlSecondsAfterFinished": 60,
            "retainJobs": "true",
            "concurrency": "wait",
            "waitSec": 10,
            "env": {"A": "1"},
            "cwd": "project",
            "mcpServers": '{"x": {"url": "http://x"}}',
            "preRunCommand": "true",
            "inheritEnv": "ANTHROPIC_API_KEY\n",
            "toolOutputLimitBytes": 1000,
        }
    )
    assert (options.model, options.effort, options.max_turns) == ("claude-opus-4-7", "high", 40)
    assert (options.timeout_seconds, options.grace_seconds, options.schedule_timeout_seconds) == (600, 5, 30)
    assert (options.skip_permissions, options.extra_args) == (False, ("--x", "a b"))
    assert (options.node_selector, options.labels) == ({"disktype": "ssd"}, {"team": "blue"})
    assert options.tolerations == ({"operator": "Exists"},)
    assert (options.retain, options.concurrency, options.wait_seconds) == (True, "wait", 10)
    assert (options.env, options.mcp_servers) == ({"A": "1"}, {"x": {"url": "http://x"}})
    assert options.env_passthrough == ("ANTHROPIC_API_KEY",)
    assert options.notes == ()


def test_every_problem_is_told_at_once():
    told = problems(
        {
            "timeoutSec": -1,
            "maxTurnsPerRun": "many",
            "retainJobs": "perhaps",
            "imagePullPolicy": "Sometimes",
            "resources": {"limit": {}, "limits": {"memory": "8 GB"}},
            "resources.requests": "1",
            "nodeSelector": "disktype",
            "tolerations": "all",
            "labels": "a b=c",
            "env": ["A=1"],
            "extraArgs": [1],
            "mcpServers": {"x": "y"},
            "paperclipRuntimeSkills": [{"key": 1}],
            "model": 5,
        }
    )
    assert [one.split()[0].split("[")[0] for one in told] == [
        *("maxTurnsPerRun", "imagePullPolicy", "retainJobs", "nodeSelector", "tolerations", "labels", "model"),
        *("timeoutSec", "extraArgs", "resources", "'resources.requests'", "resources.limits.memory", "env"),
        *("paperclipRuntimeSkills", "mcpServers"),
    ]  # fmt: skip


@pytest.mark.parametrize("config", [None, [], "a", 5])
def test_a_config_that_is_none_is_refused(config):
    assert "not a map" in problems(config)[0]


def test_resources_are_read_nested_and_flat():
    nested = of({"resources": {"requests": {"cpu": "1", "memory": ""}, "limits": {"nvidia.com/gpu": 1}}})
    assert nested.resources == {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    both = of(
        {"resources": {"requests": {"cpu": "1"}}, "resources.requests.cpu": "2", "resources.limits.nvidia.com/gpu": 2}
    )
    assert both.resources == {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}


def test_an_empty_list_turns_the_environments_off():
    options = of({"tolerations": [], "nodeSelector": {}})
    assert (options.tolerations, options.node_selector) == ((), {})


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"reattachOrphanedJobs": False}, "fail"),
        ({"reattachOrphanedJobs": "false", "concurrency": "wait"}, "wait"),
        ({"reattachOrphanedJobs": True}, "reattach"),
        ({"concurrency": "allow"}, "allow"),
    ],
)
def test_the_toggle_of_old_still_says_what_it_said(config, wanted):
    assert of(config).concurrency == wanted


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"enableRtk": True}, 50_000),
        ({"enableRtk": "true", "rtkMaxOutputBytes": 10}, 10),
        ({"rtkMaxOutputBytes": 10}, 0),
    ],
)
def test_the_tool_output_filter_is_off_unless_it_is_asked_for(config, wanted):
    assert of(config).tool_output_limit_bytes == wanted


def test_labels_of_the_launcher_and_of_kubernetes_are_left_out_with_a_word():
    options = of({"labels": "paperclip.io/run-id=x\nteam=blue\nbatch.kubernetes.io/job-name=y\njob-name=z"})
    assert options.labels == {"team": "blue"}
    assert [note.split()[1] for note in options.notes] == [
        "paperclip.io/run-id",
        "batch.kubernetes.io/job-name",
        "job-name",
    ]


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/queue-name", "app.kubernetes.io/name", "k8s.io/a", "controller-uid"])
def test_a_reserved_label(key):
    assert is_reserved(key)
    assert not is_reserved(f"my{key}".replace(".io/", ".dev/").replace("controller", "control"))


def test_skills_are_found_by_key_name_or_the_end_of_a_key():
    offered = [
        {"key": "acme/Review", "runtimeName": "review-1", "source": "/s/1"},
        {"key": "acme/plan", "runtimeName": "plan", "source": "/s/2"},
        {"name": "deploy", "source": "/s/3"},
    ]
    wanted = ["ACME/review", {"key": "plan", "versionId": "1"}, "deploy", "gone", "", None]
    options = of({"paperclipRuntimeSkills": offered, "paperclipSkillSync": {"desiredSkills": wanted}})
    assert options.skills == (
        Skill("acme/Review", "review-1", "/s/1"),
        Skill("acme/plan", "plan", "/s/2"),
        Skill("deploy", "deploy", "/s/3"),
    )
    assert options.notes == ("skill 'gone' is wanted, and not among those that Paperclip offers",)


def test_two_skills_of_one_name_are_neither():
    twins = (Skill("a/x", "one", ""), Skill("b/x", "two", ""))
    assert match_skill("x", twins) is None
    assert match_skill("b/X", twins) == twins[1]


def test_variables_that_are_no_texts_are_left_out_with_a_word():
    options = of({"env": {"A": "1", "B": 2, "C": None}})
    assert options.env == {"A": "1"}
    assert options.notes == ("env: B, C left out, since only texts can be variables",)


def test_a_plain_program_must_be_named():
    assert problems({}, Command()) == ("program is missing: it names what a plain run starts",)
    assert of({"program": "make"}, Command()).command == "make"


def test_a_misspelt_key_is_told_and_paperclips_own_are_not():
    options = of({"timeoutSecs": 5, "instructionsRootPath": "/x", "paperclipWorkspace": {}, "nodeSelectors": "a=b"})
    assert options.notes == (
        "config: 'timeoutSecs' is no key of ours; was timeoutSec meant?",
        "config: 'nodeSelectors' is no key of ours; was nodeSelector meant?",
    )


def test_what_may_be_secret_does_not_show():
    secret = "canary-7f3a"
    config = {
        "env": {"A": secret},
        "extraArgs": [secret],
        "mcpServers": {"x": {"env": {"T": secret}}},
        "promptTemplate": secret,
        "preRunCommand": secret,
    }
    assert secret not in repr(of(config))
