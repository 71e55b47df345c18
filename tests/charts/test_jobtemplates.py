from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from charts_py.errors import ConfigError
from charts_py.jobtemplates import (
    MAX_CONFIG_MAP_BYTES,
    JobKindSettings,
    JobTemplateSettings,
    ScratchVolume,
    SecretVariable,
    config_map,
    files,
    synthesize,
)
from kubekit import podspec, pointers, yamlread
from kubekit.jobtemplate import JobTemplate, PlaceholderError

TEMPLATES = Path(__file__).parents[2] / "templates"
IMAGE = f"ghcr.io/example/agent:1.4.2@sha256:{'0' * 64}"
RESOURCES = {
    "requests": {"cpu": "250m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
    "limits": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "8Gi"},
}
CLAUDE = JobKindSettings("claude", "claude", IMAGE, RESOURCES)
GENERIC = JobKindSettings("generic", "generic", IMAGE, RESOURCES)
PLAIN = JobTemplateSettings(
    namespace="paperclip-agents",
    service_account="paperclip-agent-runner",
    claim_name="paperclip-agent-workspace",
    api_url="http://paperclip.paperclip-system.svc.cluster.local:3100",
    kinds=(CLAUDE, GENERIC),
)
FULL = replace(
    PLAIN,
    kinds=tuple(
        replace(
            kind,
            secret_environment=(
                SecretVariable("ANTHROPIC_API_KEY", "paperclip-anthropic", "api-key", optional=True),
                SecretVariable("GATEWAY_KEY", "gateway", "key"),
            ),
        )
        for kind in (CLAUDE, GENERIC)
    ),
    image_pull_policy="Always",
    image_pull_secrets=("paperclip-ghcr", "other"),
    scratch=(ScratchVolume("tmp", "/tmp", "1Gi"), ScratchVolume("cache", "/cache", "4Gi")),
    user=10001,
    node_selector={"kubernetes.io/os": "linux"},
    tolerations=({"key": "agents", "operator": "Exists"},),
    priority_class="paperclip-agents",
    runtime_class="gvisor",
    queue_name="agents",
    labels={"team": "ops", "zone": "é'\"<&>{{ 7*7 }} @ \U0001f642\u2028"},
)
SIZES = ("smallest", "example", "largest")
KNOWN = {"apiVersion": "paperclip-gitops/v1", "kind": "Facts", "registries": ["ghcr.io"]}


@pytest.fixture(scope="module")
def plain() -> dict[str, JobTemplate]:
    return {template.name: template for template in synthesize(PLAIN)}


def example(template: JobTemplate, **changes: Any) -> dict[str, Any]:
    return template.fill({**template.values("example"), **changes})


def pod_of(job: dict[str, Any]) -> Any:
    return job["spec"]["template"]["spec"]


def agent_of(job: dict[str, Any]) -> Any:
    (container,) = pod_of(job)["containers"]
    return container


# Against Kubernetes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["claude", "generic"])
@pytest.mark.parametrize("settings", [PLAIN, replace(FULL, labels=None)], ids=["plain", "full"])
def test_a_filled_job_is_valid_for_kubernetes(settings: JobTemplateSettings, kind: str, size: Any) -> None:
    template = {made.name: made for made in synthesize(settings)}[kind]
    job = template.fill(template.values(size))
    kubernetes_validate.validate(job, "1.35", strict=True)
    assert "@{" not in json.dumps({**job, "spec": {**job["spec"]}}).replace("$@{", "")


def test_the_schema_would_notice_a_mistake(plain: dict[str, JobTemplate]) -> None:
    job = example(plain["claude"])
    job["spec"]["podReplacementPolicies"] = "Failed"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.35", strict=True)


@pytest.mark.parametrize("kind", ["claude", "generic"])
def test_the_largest_job_stays_below_what_a_cluster_stores(plain: dict[str, JobTemplate], kind: str) -> None:
    job = plain[kind].fill(plain[kind].values("largest"))
    assert len(json.dumps(job).encode()) < 900 * 1024


def test_the_restricted_pod_security_standard_is_met(plain: dict[str, JobTemplate]) -> None:
    pod = pod_of(example(plain["claude"]))
    agent = agent_of(example(plain["claude"]))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert agent["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {
        "persistentVolumeClaim",
        "projected",
        "emptyDir",
    }
    assert {key: pod[key] for key in pod if key.startswith("host")} == {}


def test_a_run_happens_once_and_leaves_time_to_collect_it(plain: dict[str, JobTemplate]) -> None:
    spec = example(plain["claude"])["spec"]
    once = {"parallelism": 1, "completions": 1, "backoffLimit": 0, "podReplacementPolicy": "Failed"}
    assert {key: spec[key] for key in once} == once
    assert spec["ttlSecondsAfterFinished"] == 86400
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 30)
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["FailJob", "FailJob"]
    names = {container["name"] for container in pod["containers"]}
    assert {rule["onExitCodes"]["containerName"] for rule in spec["podFailurePolicy"]["rules"][1:]} <= names


def test_each_writable_folder_has_a_limit_and_each_mount_a_volume() -> None:
    job = example(synthesize(FULL)[0])
    volumes = {volume["name"]: volume for volume in pod_of(job)["volumes"]}
    mounts = {mount["name"]: mount for mount in reversed(agent_of(job)["volumeMounts"])}
    assert mounts.keys() == volumes.keys() == {"workspace", "prompt", "tmp", "cache"}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "1Gi"}
    assert volumes["cache"]["emptyDir"] == {"sizeLimit": "4Gi"}
    assert mounts["prompt"]["readOnly"] is True
    assert re.fullmatch(r"workspaces/[a-z0-9-]+", mounts["workspace"]["subPath"])


# What a run puts in


def test_job_and_pod_carry_the_same_labels_and_the_full_ids(plain: dict[str, JobTemplate]) -> None:
    job = example(plain["claude"], queue_name=None)
    values = plain["claude"].values("example")
    template = job["spec"]["template"]["metadata"]
    assert template["labels"] == job["metadata"]["labels"]
    for name in ("run", "agent", "company", "task", "session"):
        assert template["labels"][f"paperclip.io/{name}-id"] == values[f"{name}_label"]
        assert template["annotations"][f"paperclip.io/{name}-id"] == values[f"{name}_id"]
        assert job["metadata"]["annotations"][f"paperclip.io/{name}-id"] == values[f"{name}_id"]
    assert template["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert "paperclip.io/owner" not in template["annotations"]


def test_without_a_task_or_session_nothing_of_them_is_there(plain: dict[str, JobTemplate]) -> None:
    job = plain["claude"].fill(plain["claude"].values("smallest"))
    text = json.dumps(job)
    for word in (
        "task-id",
        "session-id",
        "company-id",
        "TASK_ID",
        "COMPANY_ID",
        "kueue",
        "suspend",
        "envFrom",
    ):
        assert word not in text
    assert "tolerations" not in pod_of(job)
    assert "priorityClassName" not in pod_of(job)
    assert "nodeSelector" not in pod_of(job)


def test_a_queue_makes_the_job_wait_for_it(plain: dict[str, JobTemplate]) -> None:
    job = example(plain["claude"], queue_name="agents")
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "agents"
    assert "kueue.x-k8s.io/queue-name" not in job["spec"]["template"]["metadata"]["labels"]


def test_the_command_line_of_claude_is_fixed_and_the_runs_arguments_follow(
    plain: dict[str, JobTemplate],
) -> None:
    agent = agent_of(example(plain["claude"], arguments=["--resume", "it's $(id)"], working_dir="/workspace/p"))
    assert agent["command"] == ["/bin/sh", "-c", (TEMPLATES / "entry.sh").read_text(), "paperclip-entry"]
    assert agent["args"] == [
        "/run/paperclip/prompt",
        "/workspace/p",
        *("claude", "--print", "-", "--output-format", "stream-json", "--verbose"),
        *("--resume", "it's $$(id)"),
    ]


def test_a_generic_run_names_its_program(plain: dict[str, JobTemplate]) -> None:
    agent = agent_of(example(plain["generic"], arguments=["codex", "exec"]))
    assert agent["args"][2:] == ["codex", "exec"]
    with pytest.raises(PlaceholderError, match="arguments has 0 items; it may have 1 to 256"):
        example(plain["generic"], arguments=[])


@pytest.mark.parametrize(
    "name",
    ["HOME", "TMPDIR", "PAPERCLIP_API_URL", "PAPERCLIP_RUN_ID", "PAPERCLIP_AGENT_ID", "PAPERCLIP_COMPANY_ID",
     "PAPERCLIP_TASK_ID", "PAPERCLIP_API_KEY", "ANTHROPIC_API_KEY"],
)  # fmt: skip
def test_a_run_cannot_pose_as_another_by_its_variables(name: str) -> None:
    template = synthesize(FULL)[0]
    with pytest.raises(PlaceholderError, match=f"sets {name}, which is not the run's to set"):
        example(template, environment=[{"name": name, "value": "x"}])


def test_no_variable_is_set_twice(plain: dict[str, JobTemplate]) -> None:
    names = [entry["name"] for entry in agent_of(example(plain["claude"]))["env"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("job_name", "Run"),
        ("job_name", "a" * 64),
        ("run_label", "-a"),
        ("workspace_subpath", "workspaces/.."),
        ("workspace_subpath", "workspaces/a/b"),
        ("workspace_subpath", "workspaces/"),
        ("workspace_subpath", "other/a"),
        ("workspace_subpath", "workspaces/a\n"),
        ("working_dir", "/workspace/../etc"),
        ("working_dir", "/work"),
        ("deadline_seconds", 7 * 86400 + 1),
        ("deadline_seconds", 0),
        ("image", "ghcr.io/example/agent:1@sha256:0"),
        ("prompt_sources", ["Secret"]),
        ("prompt_sources", ["a" * 254]),
        ("prompt_sources", [{"secret": {"name": "a"}}]),
        ("prompt_sources", []),
        ("prompt_sources", "a"),
        ("bundle_subpath", "bundles/a/../b"),
        ("bundle_subpath", "workspaces/a"),
        ("bundle_folder", ".."),
        ("bundle_folder", "a/b"),
        ("bundle_sources", []),
        ("bundle_sources", ["a"]),
        ("bundle_sources", [{"name": "Secret", "items": []}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f/0", "path": "a"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "/a"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a/../b"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a//b"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a\nb"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a", "mode": 0o1777}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a", "mode": "0755"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": "a"}, {"key": "f1", "path": "a"}]}]),
        ("bundle_sources", [{"name": "a", "items": [{"key": "f0", "path": f"{'a' * 100}{n}"} for n in range(700)]}]),
        ("queue_name", "a.b"),
        ("environment", [{"name": "A=B", "value": ""}]),
        ("environment", [{"name": "A", "value": "x" * 98_305}]),
    ],
)
def test_a_value_that_would_do_harm_is_refused(plain: dict[str, JobTemplate], name: str, value: Any) -> None:
    with pytest.raises(PlaceholderError, match=name):
        example(plain["claude"], **{name: value})


# What the environment decides


def test_the_environment_gives_defaults_that_a_run_may_replace() -> None:
    template = synthesize(FULL)[0]
    job = template.fill(template.values("smallest") | {"deadline_seconds": None, "working_dir": None})
    assert agent_of(job)["image"] == IMAGE
    assert agent_of(job)["resources"] == RESOURCES
    assert agent_of(job)["args"][1] == "/workspace/project"
    assert job["spec"]["activeDeadlineSeconds"] == 4 * 3600
    assert pod_of(job)["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod_of(job)["tolerations"] == [{"key": "agents", "operator": "Exists"}]
    assert pod_of(job)["priorityClassName"] == "paperclip-agents"
    assert pod_of(job)["runtimeClassName"] == "gvisor"
    assert pod_of(job)["imagePullSecrets"] == [{"name": "paperclip-ghcr"}, {"name": "other"}]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "agents"
    assert pod_of(example(template, tolerations=[], node_selector={}))["tolerations"] == []


def test_the_prompt_is_joined_from_several_secrets_and_holds_no_token(plain: dict[str, JobTemplate]) -> None:
    (prompt,) = [
        one for one in pod_of(example(plain["claude"], prompt_sources=["a", "b"]))["volumes"] if "projected" in one
    ]
    assert prompt == {
        "name": "prompt",
        "projected": {"sources": [{"secret": {"name": "a"}}, {"secret": {"name": "b"}}], "defaultMode": 0o440},
    }


def test_skills_are_mounted_read_only_where_there_are_any(plain: dict[str, JobTemplate]) -> None:
    def of_claim(**changes: Any) -> list[Any]:
        return [
            one for one in agent_of(example(plain["claude"], **changes))["volumeMounts"] if one["name"] == "workspace"
        ]

    assert of_claim(bundle_subpath="bundles/acme/1f")[1:] == [
        {"name": "workspace", "mountPath": "/run/paperclip/bundle", "subPath": "bundles/acme/1f", "readOnly": True}
    ]
    assert of_claim(bundle_subpath=None)[1:] == []


def test_skills_from_secrets_are_plain_folders_where_those_of_the_claim_are(plain: dict[str, JobTemplate]) -> None:
    """The names at the top of a volume of Secrets are links: what is mounted is the folder below."""
    sources = [
        {"name": "a", "items": [{"key": "f0", "path": "1f/.claude/skills/x/SKILL.md"}]},
        {"name": "b", "items": [{"key": "f1", "path": "1f/.claude/skills/x/run.sh", "mode": 0o755}]},
    ]
    job = example(plain["claude"], bundle_subpath=None, bundle_folder="1f", bundle_sources=sources)
    (volume,) = [one for one in pod_of(job)["volumes"] if one["name"] == "bundle"]
    assert volume["projected"] == {"sources": [{"secret": one} for one in sources], "defaultMode": 0o644}
    assert [one for one in agent_of(job)["volumeMounts"] if one["mountPath"] == "/run/paperclip/bundle"] == [
        {"name": "bundle", "mountPath": "/run/paperclip/bundle", "subPath": "1f", "readOnly": True}
    ]
    assert podspec.bundle_secrets(job) == tuple(sources)
    kubernetes_validate.validate(job, "1.35", strict=True)


@pytest.mark.parametrize("size", SIZES)
def test_skills_come_from_one_place(plain: dict[str, JobTemplate], size: Any) -> None:
    """A cluster refuses two mounts at one path."""
    job = plain["claude"].fill(plain["claude"].values(size))
    paths = [one["mountPath"] for one in agent_of(job)["volumeMounts"]]
    assert len(set(paths)) == len(paths)
    kept = {one["name"] for one in agent_of(job)["volumeMounts"]}
    assert kept == {one["name"] for one in pod_of(job)["volumes"]}


def test_text_of_the_config_is_data_for_jinja_and_yaml() -> None:
    labels = example(synthesize(FULL)[0])["metadata"]["labels"]
    assert labels["zone"] == "é'\"<&>{{ 7*7 }} @ \U0001f642\u2028"


def test_secrets_come_by_reference() -> None:
    env = {entry["name"]: entry for entry in agent_of(example(synthesize(FULL)[0]))["env"]}
    reference = env["ANTHROPIC_API_KEY"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "paperclip-anthropic", "key": "api-key", "optional": True}
    assert env["GATEWAY_KEY"]["valueFrom"]["secretKeyRef"]["optional"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(PLAIN, kinds=()), "the kinds of Job are none"),
        (replace(PLAIN, kinds=(CLAUDE, CLAUDE)), "the kinds of Job are claude, claude"),
        (replace(PLAIN, kinds=(replace(CLAUDE, name="contract"),)), "the kinds of Job are contract"),
        (replace(PLAIN, kinds=(replace(CLAUDE, name="facts"),)), "the kinds of Job are facts"),
        (replace(PLAIN, kinds=(replace(CLAUDE, image="an image"),)), "image is 'an image'"),
        (replace(PLAIN, kinds=(replace(CLAUDE, resources={"requests": {}}),)), "resources is"),
        (replace(PLAIN, home="/root"), "home of the agents is /root"),
        (replace(PLAIN, working_dir="/workspace/../etc"), "working_dir is"),
        (replace(PLAIN, deadline_seconds=8 * 86400), "deadline_seconds is 691200"),
        (replace(PLAIN, labels={"paperclip.io/run-id": "x"}), "the label paperclip.io/run-id is not free"),
        (replace(PLAIN, claim_name="@{claim}"), "claim is not in the contract"),
        (replace(PLAIN, api_url="http://@{run_id}"), "a placeholder must be the whole text"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: JobTemplateSettings, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        synthesize(settings)
    assert caught.value.remedy


# The sources


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    folder = tmp_path / "templates"
    shutil.copytree(TEMPLATES, folder)
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    return folder


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("job.yaml.j2", '"@{owner}"', "nobody", "owner is in the contract but not in the template"),
        (
            "contract.yaml",
            "  owner:",
            "  owners:",
            "/metadata/annotations/paperclip.io~1owner: owner is not in the",
        ),
        ("contract.yaml", "type: path", "type: folder", "working_dir has the type 'folder'"),
        ("contract.yaml", "  owner:", "  agent_id:", "contract.yaml:"),
        (
            "contract.yaml",
            "example: PAP-417",
            "example: a b",
            "the example values of the contract do not fit",
        ),
        ("job.yaml.j2", "{{ claim_name |", "{{ claim |", "'claim' is undefined"),
        ("job.yaml.j2", "{{ namespace | tojson }}", "{{ namespace.__class__.__mro__ }}", "unsafe"),
        ("job.yaml.j2", "{%- endmacro -%}", "", "job.yaml.j2:"),
        ("job.yaml.j2", "backoffLimit: 0", "completions: 1", "stands here and at"),
        ("entry.sh", "code=$?", "code=$(id)", "entry.sh:"),
        ("entry.sh", "code=$?", "code=$$", "Kubernetes would change '$$' in the script"),
    ],
)
def test_a_source_that_is_wrong_is_named(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        synthesize(PLAIN, changed(tmp_path, name, old, new))
    assert caught.value.remedy


def test_a_folder_without_templates_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "contract.yaml"))):
        synthesize(PLAIN, tmp_path)


def test_every_placeholder_says_what_it_is_and_has_examples_that_reach_its_limit(
    plain: dict[str, JobTemplate],
) -> None:
    for name, placeholder in plain["claude"].placeholders.items():
        assert placeholder.about.endswith("."), name
        largest = placeholder.value("largest")
        if largest is None:
            # What excludes it has one.
            assert name == "bundle_subpath"
            assert placeholder.value("example") is not None
            continue
        if placeholder.type == "string":
            assert len(largest.encode()) == placeholder.max_bytes or name == "image", name
        if placeholder.type in {"strings", "environment", "map"}:
            assert len(largest) == placeholder.items, name
    longest = plain["claude"].values("largest")["arguments"]
    with pytest.raises(PlaceholderError, match="arguments has 131073 bytes in all; at most 131072"):
        example(plain["claude"], arguments=[*longest[:-1], longest[-1] + "a"])


def test_the_readme_explains_every_exit_code_and_placeholder(plain: dict[str, JobTemplate]) -> None:
    readme = (TEMPLATES / "README.md").read_text()
    for code in sorted(set(re.findall(r"fail (\d+)", (TEMPLATES / "entry.sh").read_text()))):
        assert f"| {code} |" in readme
    for name in plain["claude"].placeholders:
        assert f"`{name}`" in readme


# What is delivered


def test_the_config_map_holds_all_that_the_launcher_needs() -> None:
    made = synthesize(PLAIN)
    manifest = config_map(made, KNOWN, "paperclip-job-templates", "paperclip-system", {"a": "b"})
    kubernetes_validate.validate(manifest, "1.35", strict=True)
    assert sorted(manifest["data"]) == ["claude.json", "contract.json", "facts.json", "generic.json"]
    assert json.loads(manifest["data"]["facts.json"]) == KNOWN
    contract = manifest["data"]["contract.json"]
    for template in made:
        loaded = JobTemplate.load(manifest["data"][f"{template.name}.json"], contract)
        assert loaded == template
        for size in SIZES:
            assert loaded.fill(loaded.values(size)) == template.fill(template.values(size))


def test_a_config_map_that_is_too_large_is_refused() -> None:
    kinds = tuple(replace(CLAUDE, name=f"kind-{index}") for index in range(140))
    made = synthesize(replace(PLAIN, kinds=kinds[:1])) * 140
    renamed = tuple(replace(template, name=kind.name) for template, kind in zip(made, kinds, strict=True))
    with pytest.raises(ConfigError, match=str(MAX_CONFIG_MAP_BYTES)):
        config_map(renamed, KNOWN, "a", "b", {})


def test_the_files_hold_the_same_as_yaml() -> None:
    made = synthesize(PLAIN)
    written = files(made, KNOWN)
    assert list(written) == ["claude.yaml", "contract.yaml", "facts.yaml", "generic.yaml"]
    assert yamlread.read(written["facts.yaml"], "file").value == KNOWN
    for template in made:
        tree = yamlread.read(written[f"{template.name}.yaml"], "file").value
        assert tree == json.loads(template.to_text())
        assert pointers.get(tree, "/job/spec/template/spec/containers/0/image") == "@{image}"
    contract = yamlread.read(written["contract.yaml"], "file").value
    assert contract == json.loads(made[0].contract.text)


def test_the_same_settings_make_the_same_bytes() -> None:
    assert files(synthesize(FULL), KNOWN) == files(synthesize(FULL), KNOWN)
