"""The launcher beside the server: what is rendered, what is refused, and who of the pod holds what."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from charts_py.checks import CheckSettings, judge
from charts_py.config.environment import Environment
from charts_py.config.load import InvalidConfig, parse
from charts_py.images import ImageLock
from charts_py.known import facts
from charts_py.render import render
from kubekit.podspec import containers, pod_spec

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
SIDECAR = "{image: ghcr.io/example/launcher:1.0}"

_SPEC = importlib.util.spec_from_file_location("config_strategy", ROOT / "tests/support/config_strategy.py")
strategy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(strategy)


def environment(sidecar=SIDECAR, server=""):
    """The smallest shipped environment, with a line for `launcher` and lines below `server`."""
    text = (ROOT / "environments" / "minimal.yaml").read_text()
    text = text.replace("\nserver:\n", f"\nserver:\n{server}", 1)
    if sidecar:
        text += f"launcher: {{sidecar: {sidecar}}}\n"
    return parse(text.encode(), "a.yaml", Environment)[0]


def rendered(config):
    return [one.manifest for one in render(config, ImageLock(), TEMPLATES).objects]


def deployment(config):
    (found,) = [one for one in rendered(config) if one["kind"] == "Deployment"]
    return found


def parts(config):
    """(pod spec, its containers by name)."""
    found = deployment(config)
    return pod_spec(found), {one.name: one.spec for one in containers(found)}


def mounts(container):
    return {one["mountPath"]: one["name"] for one in container["volumeMounts"]}


def test_without_a_sidecar_the_server_holds_the_token_as_before():
    spec, found = parts(environment(sidecar=""))
    assert spec["automountServiceAccountToken"] is True
    assert "initContainers" not in spec
    assert "terminationGracePeriodSeconds" not in spec
    assert set(found) == {"paperclip"}
    assert [one["name"] for one in spec["volumes"]] == ["data"]


def test_the_token_is_in_the_launchers_container_alone():
    spec, found = parts(environment())
    assert spec["automountServiceAccountToken"] is False
    tokens = {
        one["name"]
        for one in spec["volumes"]
        if any("serviceAccountToken" in source for source in one.get("projected", {}).get("sources", ()))
    }
    assert [name for name, one in found.items() if tokens & set(mounts(one).values())] == ["launcher"]
    assert mounts(found["launcher"])[TOKEN] in tokens


def test_both_containers_share_the_socket_and_the_server_cannot_replace_it():
    spec, found = parts(environment())
    told = {one["name"]: one.get("value") for one in found["paperclip"]["env"]}["PAPERCLIP_LAUNCHER_SOCKET"]
    folder = told.rpartition("/")[0]
    assert f"--socket={told}" in found["launcher"]["args"]
    assert mounts(found["paperclip"])[folder] == mounts(found["launcher"])[folder] == "launcher-socket"
    (mount,) = [one for one in found["paperclip"]["volumeMounts"] if one["mountPath"] == folder]
    assert mount["readOnly"] is True
    assert {one["name"]: one for one in spec["volumes"]}["launcher-socket"]["emptyDir"]


def test_it_begins_before_the_server_ends_after_it_and_nobody_waits_for_it():
    spec, found = parts(environment())
    assert [one["name"] for one in spec["initContainers"]] == ["adapter-install", "launcher"]
    launcher = found["launcher"]
    assert launcher["restartPolicy"] == "Always"
    assert launcher["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert not {"readinessProbe", "startupProbe"} & set(launcher)
    assert spec["terminationGracePeriodSeconds"] == 45
    assert parts(environment(server="  terminationGracePeriodSeconds: 60\n"))[0]["terminationGracePeriodSeconds"] == 75


def test_the_init_containers_of_the_config_come_first():
    own = """\
  initContainers:
    - {name: first, image: "ghcr.io/example/first:1", resources: {requests: {cpu: 1m}, limits: {memory: 8Mi}}}
"""
    spec, _ = parts(environment(server=own))
    assert [one["name"] for one in spec["initContainers"]] == ["first", "adapter-install", "launcher"]


def test_its_identity_and_its_journal_outlive_the_pod():
    spec, found = parts(environment())
    assert "--identity=minimal" in found["launcher"]["args"]
    (state,) = [one for one in found["launcher"]["volumeMounts"] if one["mountPath"] == "/var/lib/paperclip-launcher"]
    assert (state["name"], state["subPath"]) == ("data", "launcher")
    claim = {one["name"]: one for one in spec["volumes"]}["data"]["persistentVolumeClaim"]
    assert claim == {"claimName": "paperclip-data"}
    for name in ("launcher", "adapter-install"):
        context = found[name]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"], spec["securityContext"]["fsGroup"]) == (1000, 1000, 1000)
        assert context["readOnlyRootFilesystem"] is True


def test_the_kubelet_reaches_it_on_the_pods_address_of_either_family():
    _, found = parts(environment())
    assert "--http=[$(POD_IP)]:9464" in found["launcher"]["args"]
    assert found["launcher"]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert found["launcher"]["ports"] == [{"name": "metrics", "containerPort": 9464, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("sidecar", "told", "mounted"),
    [
        (SIDECAR, "--log-level=info", {"/etc/paperclip/job-templates": "launcher-templates"}),
        # Where the server keeps the instructions of its agents (`companies/<id>/agents/<id>/instructions`).
        (SIDECAR, "--skills=/paperclip/instances/default/companies", {"/paperclip": "data"}),
        (SIDECAR, "--skills=/paperclip/instances/default/skills", {"/paperclip": "data"}),
        ("{image: 'a/b:1', logLevel: debug}", "--log-level=debug", {}),
        ("{image: 'a/b:1', metricsPort: 9900}", "--http=[$(POD_IP)]:9900", {}),
        ("{image: 'a/b:1', skillsFolders: [/paperclip/x]}", "--skills=/paperclip/x", {"/paperclip": "data"}),
        ("{image: 'a/b:1', workspaceClaim: w}", "--workspace=/workspace", {"/workspace": "launcher-workspace"}),
    ],
)
def test_each_option_arrives(sidecar, told, mounted):
    _, found = parts(environment(sidecar))
    assert told in found["launcher"]["args"]
    assert mounted.items() <= mounts(found["launcher"]).items()


def test_what_it_needs_not_it_has_not():
    _, found = parts(environment("{image: 'a/b:1', skillsFolders: []}"))
    assert {"/paperclip", "/workspace"}.isdisjoint(mounts(found["launcher"]))
    assert mounts(found["adapter-install"]) == {"/paperclip": "data"}
    assert not any(word.startswith(("--skills", "--workspace")) for word in found["launcher"]["args"])


def test_the_claim_is_only_read_where_skills_come_from():
    _, found = parts(environment("{image: 'a/b:1', skillsFolders: [/paperclip/instances]}"))
    (mount,) = [one for one in found["launcher"]["volumeMounts"] if one["mountPath"] == "/paperclip"]
    assert mount["readOnly"] is True


def test_the_adapter_goes_into_the_servers_own_home():
    _, found = parts(environment(server="  settings: {PAPERCLIP_HOME: /paperclip/home}\n"))
    assert found["adapter-install"]["args"] == ["adapter", "--install=/paperclip/home"]


def test_new_templates_start_the_launcher_anew():
    config = environment()
    before = deployment(config)["spec"]["template"]["metadata"]["annotations"]["paperclip.io/config-checksum"]
    jobs = config.agents.jobs.model_copy(update={"deadline_seconds": 7200})
    changed = config.model_copy(update={"agents": config.agents.model_copy(update={"jobs": jobs})})
    after = deployment(changed)["spec"]["template"]["metadata"]["annotations"]["paperclip.io/config-checksum"]
    assert before != after
    bare, other = environment(sidecar=""), changed.model_copy(update={"launcher": environment(sidecar="").launcher})
    assert deployment(bare)["spec"]["template"]["metadata"] == deployment(other)["spec"]["template"]["metadata"]


def test_its_image_is_locked_and_pinned_with_the_others():
    config = environment()
    assert "ghcr.io/example/launcher:1.0" in config.images
    pinned = environment("{image: 'ghcr.io/example/launcher:1.0@sha256:" + "ab" * 32 + "'}")
    _, found = parts(pinned)
    assert found["launcher"]["image"] == found["adapter-install"]["image"] == pinned.launcher.sidecar.image


def test_prometheus_reaches_the_metrics_only_as_a_caller():
    def ports(config):
        (policy,) = [one for one in rendered(config) if one["metadata"]["name"] == "paperclip-server"]
        return {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}

    assert ports(environment()) == {3100}
    text = (ROOT / "environments" / "minimal.yaml").read_text()
    text += f"launcher: {{sidecar: {SIDECAR}}}\n"
    text += "network: {callers: [{name: prometheus, namespace: monitoring, ports: [9464]}]}\n"
    assert ports(parse(text.encode(), "a.yaml", Environment)[0]) == {3100, 9464}


def test_a_workspace_claim_is_expected_to_be_there():
    config = environment("{image: 'a/b:1', workspaceClaim: shared}")
    known = facts(config).external("PersistentVolumeClaim", "paperclip-system", "shared")
    assert known is not None
    assert known.modes == {"ReadWriteMany"}


REFUSED = {
    "a sidecar without rights": (
        "{enabled: false, sidecar: {image: 'a/b:1'}}",
        "",
        "a `sidecar` has rights only with `enabled: true`",
    ),
    "skills that are elsewhere": (
        "{sidecar: {image: 'a/b:1', skillsFolders: [/app/skills]}}",
        "",
        "skillsFolders: /app/skills is not on the server's claim",
    ),
    "skills beside the claim": (
        "{sidecar: {image: 'a/b:1', skillsFolders: [/paperclips]}}",
        "",
        "skillsFolders: /paperclips is not on the server's claim",
    ),
    "a taken container": (
        "{sidecar: {image: 'a/b:1'}}",
        "  sidecars: [{name: launcher, image: 'c/d:1', resources: {requests: {cpu: 1m}, limits: {memory: 8Mi}}}]\n",
        "server: the container launcher belongs to `launcher.sidecar`",
    ),
    "a taken volume": (
        "{sidecar: {image: 'a/b:1'}}",
        "  volumes: [{name: launcher-socket, scratch: {sizeLimit: 1Mi}}]\n",
        "server.volumes: the volume launcher-socket belongs to `launcher.sidecar`",
    ),
    "a taken path": (
        "{sidecar: {image: 'a/b:1'}}",
        "  mounts: [{volume: data, path: /run/paperclip-launcher}]\n",
        "server.mounts: the mount path /run/paperclip-launcher belongs to `launcher.sidecar`",
    ),
    "a socket of one's own": (
        "{sidecar: {image: 'a/b:1'}}",
        "  settings: {PAPERCLIP_LAUNCHER_SOCKET: /tmp/socket}\n",
        "server: the variable PAPERCLIP_LAUNCHER_SOCKET belongs to `launcher.sidecar`",
    ),
    "a home in another place": (
        "{sidecar: {image: 'a/b:1'}}",
        "  settings: {PAPERCLIP_HOME: /var/paperclip}\n",
        "PAPERCLIP_HOME must be /paperclip or below, on the server's claim (is /var/paperclip)",
    ),
    "a home that the adapter does not know": (
        "{sidecar: {image: 'a/b:1'}}",
        "  environment: [{name: PAPERCLIP_HOME, value: /paperclip/b}]\n",
        "server.environment: PAPERCLIP_HOME stands in `server.settings`",
    ),
    "the server's port": (
        "{sidecar: {image: 'a/b:1', metricsPort: 3100}}",
        "",
        "launcher.sidecar.metricsPort: the server listens on 3100",
    ),
    "the port of another container": (
        "{sidecar: {image: 'a/b:1'}}",
        "  sidecars: [{name: s, image: c:1, resources: {requests: {}, limits: {}}, ports: [{name: m, port: 9464}]}]\n",
        "launcher.sidecar.metricsPort: the container 's' listens on 9464",
    ),
    "the server's own claim": (
        "{sidecar: {image: 'a/b:1', workspaceClaim: paperclip-data}}",
        "",
        "launcher.sidecar.workspaceClaim: paperclip-data is a claim of the server itself",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_leaves_no_room_for_it_is_refused(case):
    launcher, server, message = REFUSED[case]
    text = (ROOT / "environments" / "minimal.yaml").read_text().replace("\nserver:\n", f"\nserver:\n{server}", 1)
    with pytest.raises(InvalidConfig) as raised:
        parse((text + f"launcher: {launcher}\n").encode(), "a.yaml", Environment)
    assert message in str(raised.value)


@settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(config=strategy.environments(), sidecar=strategy.sidecar)
def test_beside_any_server_it_has_no_finding_of_its_own(config, sidecar):
    config = copy.deepcopy(config) | {"launcher": {"sidecar": sidecar}}
    environment = Environment.model_validate_json(json.dumps(config), by_alias=True, by_name=False)
    found = judge(render(environment, ImageLock(), TEMPLATES), environment, ImageLock(), CheckSettings.none()).findings
    assert [one for one in found if one.policy.startswith("launcher-") or one.policy == "no-sa-token"] == []
    own = {one.policy for one in found if one.container in {"launcher", "adapter-install"}}
    # What a config says of amounts and images is its own business.
    assert own <= {"image-digest", "pull-policy-fits-pin", "resources-set", "memory-ratio"}
