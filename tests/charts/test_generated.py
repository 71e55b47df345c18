"""Whatever config is accepted, what it renders has legal names and labels, sound probes, and no open finding."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import yaml
from hypothesis import HealthCheck, Phase, given, settings

from charts_py.checks import CheckSettings, judge
from charts_py.config.environment import Environment
from charts_py.images import ImageLock
from charts_py.render import render
from kubekit import labels, names, yamlwrite
from kubekit.podspec import containers, pod_metadata, pod_spec
from policies.schemas.crds import CrdSchemas

_PATH = Path(__file__).resolve().parents[1] / "support" / "config_strategy.py"
_SPEC = importlib.util.spec_from_file_location("config_strategy", _PATH)
strategy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(strategy)

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
SETTINGS = CheckSettings.none()
PHASES = (Phase.explicit, Phase.generate)  # a shrink of such a config takes minutes, and the findings say enough
# What a config is free to choose, and a policy is there to find: names, amounts, times, addresses, ports. All else is
# ours to get right. Digests cannot be known here; kinds without a schema are the next folder's business.
ALLOWED = {
    *("image-digest", "pull-policy-fits-pin", "lb-ip-in-pool", "lb-ip-unique", "pvc-storageclass"),
    *("secret-ref-resolves", "secret-key-exists", "configmap-ref-resolves", "es-consumed", "es-refresh-bounds"),
    *("resources-set", "memory-ratio", "high-uid", "termination-grace", "probe-timing"),
    *("svc-target-port-exists", "external-traffic-policy-local", "agents-reach-no-more", "netpol-agents-egress"),
    "netpol-not-dangling",
}


GENERATED = settings(
    max_examples=40 if os.environ.get("CI") else 12,
    deadline=None,
    database=None,
    # The same configs in every run: what a policy finds in a config drawn at random is nobody's fault in CI.
    derandomize=True,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
)


@GENERATED
@given(config=strategy.environments())
def test_every_object_of_an_accepted_config_is_sound(config):
    environment = Environment.model_validate_json(json.dumps(config), by_alias=True, by_name=False)
    rendering = render(environment, ImageLock(), TEMPLATES)
    for rendered in rendering.objects:
        manifest = rendered.manifest
        assert len(rendered.id.name) <= 63 or names.is_dns_subdomain(rendered.id.name)
        for key, value in manifest["metadata"].get("labels", {}).items():
            assert names.is_label_key(key)
            assert names.is_label_value(value)
        assert yaml.safe_load(yamlwrite.dump(manifest)) == manifest
    findings = judge(rendering, environment, ImageLock(), SETTINGS).findings
    open_ones = [one for one in findings if one.policy not in ALLOWED and not one.message.startswith("no schema for")]
    assert open_ones == []


@GENERATED
@given(config=strategy.environments())
def test_the_server_is_one_pod_that_is_replaced_whole_and_probed_by_tcp(config):
    environment = Environment.model_validate_json(json.dumps(config), by_alias=True, by_name=False)
    rendering = render(environment, ImageLock(), TEMPLATES)
    (deployment,) = [one.manifest for one in rendering.objects if one.id.kind == "Deployment"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pointer, metadata = pod_metadata(deployment)
    assert pointer == "/spec/template/metadata"
    assert labels.SERVER.items() <= metadata["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == labels.SERVER
    spec = pod_spec(deployment)
    alone = environment.launcher.enabled and environment.launcher.sidecar is None
    assert spec["automountServiceAccountToken"] is alone
    assert spec["securityContext"]["fsGroup"] == 1000
    server = next(one for one in containers(deployment) if one.name == "paperclip")
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert server.spec[probe]["tcpSocket"] == {"port": "http"}
    variables = [one["name"] for one in server.spec["env"]]
    if "PG_PASSWORD" in variables:
        assert variables.index("PG_PASSWORD") < variables.index("DATABASE_URL")


def test_the_shipped_environments_have_no_finding_but_missing_digests():
    folder = TEMPLATES.parent / "environments"
    for name in ("minimal", "operating-post", "frank-2026-08"):
        config = yaml.safe_load((folder / f"{name}.yaml").read_text())
        environment = Environment.model_validate_json(json.dumps(config), by_alias=True, by_name=False)
        schemas = CrdSchemas([TEMPLATES.parent.parent / "shared" / "schemas"])
        findings = judge(
            render(environment, ImageLock(), TEMPLATES),
            environment,
            ImageLock(),
            CheckSettings(schemas, require_schemas=False, cache=None, today=SETTINGS.today),
        ).findings
        assert {one.policy for one in findings} == {"image-digest"}
