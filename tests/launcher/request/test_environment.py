"""The variables of a run: what Paperclip says of it, what the config may add, and nothing of the launcher's own."""

from __future__ import annotations

import json

import pytest

from paperclip_launcher.dialects.opencode import OpenCode
from paperclip_launcher.environment import LARGEST, LONGEST_VALUE
from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.handover import Extras


@pytest.fixture
def variables(planned):
    """(literals, secret ones, all names in the Job) of a run."""

    def of(**more):
        made = planned(**more)
        (container,) = made.job["spec"]["template"]["spec"]["containers"]
        literals = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        return literals, {**made._variables}, made

    return of


def problems(planned, **more):
    with pytest.raises(ConfigInvalid) as caught:
        planned(**more)
    return caught.value.problems


def test_what_paperclip_says_of_the_run(variables):
    context = {
        "wakeCommentId": " ",
        "commentId": "c-1",
        "approvalId": "ap",
        "approvalStatus": "approved",
        "paperclipIssue": {"workMode": "plan"},
        "paperclipWorkspaces": [{"cwd": "/x"}],
        "paperclipRuntimeServices": [],
        "paperclipRuntimePrimaryUrl": 5,
    }
    literals, secret, _ = variables(context=context)
    assert {name: literals[name] for name in literals if name.startswith("PAPERCLIP_")} == {
        "PAPERCLIP_API_URL": "http://paperclip.paperclip-system.svc.cluster.local:3100",
        "PAPERCLIP_RUN_ID": "7b1fdc1e-55a4-4c53-8a56-0c9b4a2b9d10",
        "PAPERCLIP_AGENT_ID": "0d8b4472-c42c-4052-aab1-e32897909afa",
        "PAPERCLIP_COMPANY_ID": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "PAPERCLIP_TASK_ID": "i-1",
        "PAPERCLIP_WAKE_REASON": "issue_assigned",
        "PAPERCLIP_WAKE_COMMENT_ID": "c-1",
        "PAPERCLIP_APPROVAL_ID": "ap",
        "PAPERCLIP_APPROVAL_STATUS": "approved",
        "PAPERCLIP_ISSUE_WORK_MODE": "plan",
        "PAPERCLIP_LINKED_ISSUE_IDS": "i-1,i-2",
        "PAPERCLIP_WORKSPACE_CWD": "/workspace/project",
        "PAPERCLIP_WORKSPACE_SOURCE": "project",
        "PAPERCLIP_WORKSPACE_REPO_URL": "https://x.test/r",
    }
    assert json.loads(secret["PAPERCLIP_WAKE_PAYLOAD_JSON"])["issue"]["title"] == "Mend it"
    assert secret["PAPERCLIP_WORKSPACES_JSON"] == '[{"cwd":"/x"}]'
    assert (secret["PAPERCLIP_API_KEY"], secret["PLAIN"]) == ("canary-token", "canary-env")
    assert len(secret) == 4


def test_the_connection_tools_are_at_hand_and_their_token_is_secret(variables, tree):
    tree["runtimeTools"] = {
        "version": 1,
        "guidance": "Connection tools:\n" + 200 * "- use them\n",
        "mcpEndpoint": "http://paperclip:3100/mcp/runtime-tools",
        "rest": {"connectionsSearch": "http://paperclip:3100/s", "connectionRequest": None},
        "bearerToken": "canary-tools",
        "expiresAt": "2026-11-22T07:00:00.000Z",
        "tools": ["connections_search", "connection_request"],
    }
    given = {"PAPERCLIP_RUNTIME_TOOLS_TOKEN": "mine", "PAPERCLIP_RUNTIME_TOOLS_MCP_URL": "mine", "PLAIN": "1"}
    literals, secret, made = variables(tree=tree, config={"env": given})
    start = "PAPERCLIP_RUNTIME_TOOLS_"
    assert {name.removeprefix(start): literals[name] for name in literals if name.startswith(start)} == {
        "MCP_URL": "http://paperclip:3100/mcp/runtime-tools",
        "EXPIRES_AT": "2026-11-22T07:00:00.000Z",
        "CONNECTIONS_SEARCH_URL": "http://paperclip:3100/s",
        "AVAILABLE": "connections_search,connection_request",
    }
    # Long texts go with what is secret, so that the Job stays small.
    assert {name.removeprefix(start) for name in secret if name.startswith(start)} == {"TOKEN", "GUIDANCE"}
    assert (secret[f"{start}TOKEN"], secret["PLAIN"]) == ("canary-tools", "1")
    assert "canary-tools" in made.secret_values
    assert "canary-tools" not in json.dumps(made.job) + repr(made)
    assert [note.split()[1] for note in made.notes] == [*given][:2]


def test_secrets_stand_in_no_job_and_no_repr(variables):
    *_, made = variables()
    for canary in ("canary-token", "canary-env", "canary-adapter-config", "please"):
        assert canary not in json.dumps(made.job)
        assert canary not in repr(made)
    assert set(made.secret_values) == {"canary-token", "canary-env"}


def test_the_servers_own_folders_do_not_reach_the_pod(variables):
    workspace = {"cwd": "/srv/w", "agentHome": "/srv/home", "worktreePath": "/workspace/project/tree"}
    environment = {
        "TMPDIR": "/srv",
        "GH_CONFIG_DIR": "/srv",
        "PAPERCLIP_RUN_SCRATCH_DIR": "/srv",
        "PAPERCLIP_RUNNER_X": "1",
    }
    literals, secret, made = variables(context={"paperclipWorkspace": workspace}, config={"env": environment})
    assert literals["PAPERCLIP_WORKSPACE_WORKTREE_PATH"] == "/workspace/project/tree"
    assert "AGENT_HOME" not in literals
    assert not set(environment) & (set(secret) | (set(literals) - {"TMPDIR"}))
    assert literals["TMPDIR"] == "/tmp"
    assert made.notes == ()


def test_no_run_poses_as_another_and_no_config_brings_a_token(variables, tree):
    tree["authToken"] = None
    names = [
        "PAPERCLIP_RUN_ID",
        "PAPERCLIP_AGENT_ID",
        "PAPERCLIP_API_KEY",
        "PAPERCLIP_API_URL",
        "HOME",
        "PAPERCLIP_TASK_ID",
    ]
    given = dict.fromkeys([*names, "PAPERCLIP_WAKE_REASON", "ANTHROPIC_API_KEY"], "mine")
    literals, secret, made = variables(tree=tree, config={"env": {**given, "PAPERCLIP_CUSTOM": "kept"}})
    assert "mine" not in literals.values()
    assert set(secret) == {"PAPERCLIP_CUSTOM", "PAPERCLIP_WAKE_PAYLOAD_JSON"}
    assert [note.split()[1] for note in made.notes] == list(given)


def test_without_anything_secret_there_is_no_secret_of_variables(variables, tree):
    tree |= {"authToken": None, "config": {}, "context": {}}
    _, secret, made = variables(tree=tree)
    assert secret == {}
    assert "envFrom" not in made.job["spec"]["template"]["spec"]["containers"][0]


def test_values_arrive_as_they_are(variables):
    tricky = {"A": "$(HOME) $$ `id`", "B": "a\nb\r\n", "C": "🙂é", "D": ""}
    _, secret, _ = variables(config={"env": tricky})
    assert {name: secret[name] for name in tricky} == tricky


def test_a_payload_that_is_no_variable_becomes_a_file(variables):
    wake = {"reason": "x", "comments": [{"body": "y" * LONGEST_VALUE}]}
    literals, secret, made = variables(context={"paperclipWake": wake})
    assert literals["PAPERCLIP_WAKE_PAYLOAD_JSON_FILE"] == "/run/paperclip/prompt/paperclip-wake-payload-json.txt"
    assert "PAPERCLIP_WAKE_PAYLOAD_JSON" not in {**literals, **secret}
    assert json.loads(made._prompt_data[0]["paperclip-wake-payload-json.txt"]) == wake
    assert "PAPERCLIP_WAKE_PAYLOAD_JSON_FILE" in made.notes[0]


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"A": "x" * (LONGEST_VALUE + 1)}, "env: 'A' has 98305 bytes; at most 98304 fit into a variable"),
        ({"A": "a\0"}, "env: 'A' holds NUL at character 2, which no process can be given"),
        (
            {"4ac8" * 8: "A"},
            "env: '4ac8'... of 32 characters is no name of a variable: letters, digits and _, and no digit first",
        ),
        ({"A=B": ""}, "env: 'A=B' is no name of a variable: letters, digits and _, and no digit first"),
        ({f"A{n}": "x" * 90_000 for n in range(7)}, f"at most {LARGEST} can be kept"),
    ],
)
def test_a_variable_that_cannot_be_is_told(planned, environment, sentence):
    (told,) = problems(planned, config={"env": environment})
    assert told.endswith(sentence)
    assert "xxx" not in told


GIT = [
    {"GITHUB_TOKEN": "x"},
    {"GH_TOKEN": "x"},
    {"gitlab_token": "x"},
    {"GIT_SSH_COMMAND": "ssh"},
    {"GIT_CONFIG_VALUE_0": "x"},
    {"GITHUB_PERSONAL_ACCESS_TOKEN": "x"},
    {"MY_KEY": "ghp_" + "a" * 36},
    {"MY_KEY": "github_pat_" + "a" * 30},
    {"MY_KEY": "glpat-" + "a" * 20},
    {"MY_KEY": "-----BEGIN OPENSSH PRIVATE KEY-----\nx"},
    {"ORIGIN": "https://user:secret@git.example.com/x"},
    {"NET": "machine github.com login me password x"},
]


@pytest.mark.parametrize("environment", GIT, ids=lambda one: next(iter(one)))
def test_a_credential_of_git_is_refused_unless_it_is_meant(planned, environment):
    (name,) = environment
    (told,) = problems(planned, config={"env": environment})
    assert told.startswith(f"env: {name} looks like a credential of git")
    assert planned(config={"env": environment, "allowGitCredentials": [name]})._variables[name] == environment[name]


@pytest.mark.parametrize(
    "environment",
    [
        {"GIT_AUTHOR_NAME": "Ada"},
        {"GIT_TERMINAL_PROMPT": "0"},
        {"HTTPS_PROXY": "http://u:p@proxy:1"},
        {"TOKEN": "sk-x"},
    ],
)
def test_what_only_looks_a_little_like_it_is_fine(planned, environment):
    assert environment.items() <= planned(config={"env": environment})._variables.items()


def test_the_launchers_own_variables_are_passed_on_by_name_and_by_list(planned):
    own = {"ANTHROPIC_BASE_URL": "http://gateway", "DATABASE_URL": "postgres://canary", "HTTPS_PROXY": "http://p:1"}
    extras = Extras(inherited=own)
    config = {"inheritEnv": ["ANTHROPIC_BASE_URL", "HTTPS_PROXY", "OPENAI_API_KEY"]}
    made = planned(config=config, extras=extras)
    assert {"ANTHROPIC_BASE_URL": "http://gateway", "HTTPS_PROXY": "http://p:1"}.items() <= made._variables.items()
    assert made.notes == ("inheritEnv: the launcher has no variable OPENAI_API_KEY",)
    assert "DATABASE_URL" not in planned(extras=extras)._variables
    (told,) = problems(planned, config={"inheritEnv": ["DATABASE_URL"]}, extras=extras)
    assert told == "inheritEnv: 'DATABASE_URL' is not a variable that an agent may have of the launcher"


def test_a_kind_of_agent_has_variables_of_its_own_that_the_config_may_change(variables):
    literals, _, _ = variables(dialect=OpenCode())
    assert literals["OPENCODE_DISABLE_PROJECT_CONFIG"] == "true"
    literals, secret, _ = variables(dialect=OpenCode(), config={"env": {"OPENCODE_DISABLE_PROJECT_CONFIG": "false"}})
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in literals
    assert secret["OPENCODE_DISABLE_PROJECT_CONFIG"] == "false"
