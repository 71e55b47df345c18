"""The stack paperclip-policies: off unless the config turns it on, and then the same from run to run."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from charts_py import images
from charts_py.config.admission import AdmissionPolicies
from charts_py.config.environment import Environment
from charts_py.config.load import load_environment
from charts_py.render import prepare
from policies.waivers import Waiver, Waivers

ROOT = Path(__file__).resolve().parents[2]
LOCK = images.load(ROOT / "images.lock")


def loaded(name: str = "operating-post") -> Environment:
    return load_environment(ROOT / "environments" / f"{name}.yaml").config


def rendered(config: AdmissionPolicies | None, waivers: Waivers | None = None):
    environment = loaded().model_copy(update={"admission_policies": config})
    return prepare(environment, LOCK, ROOT / "templates", waivers or Waivers())


def of_kind(rendering, kind):
    return {one.id.name: one.manifest for one in rendering.objects if one.id.kind == kind}


def test_it_is_off_by_default():
    assert loaded("minimal").admission_policies is None
    rendering = rendered(None)
    assert [one.stack for one in rendering.objects if one.stack == "paperclip-policies"] == []
    assert "paperclip-policies" not in of_kind(rendering, "Application")


def test_every_policy_has_a_binding_and_argo_cd_may_sync_them():
    rendering = rendered(AdmissionPolicies())
    policies, bindings = (of_kind(rendering, f"ValidatingAdmissionPolicy{end}") for end in ("", "Binding"))
    assert len(policies) > 60
    assert set(policies) == set(bindings)
    assert all(bindings[name]["spec"]["policyName"] == name for name in policies)
    application = of_kind(rendering, "Application")["paperclip-policies"]
    assert application["spec"]["source"]["path"].endswith("operating-post/paperclip-policies")
    (project,) = of_kind(rendering, "AppProject").values()
    allowed = {one["kind"] for one in project["spec"]["clusterResourceWhitelist"]}
    assert {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} <= allowed


def test_it_renders_the_same_twice():
    first, second = (rendered(AdmissionPolicies()) for _ in range(2))
    assert [one.manifest for one in first.objects] == [one.manifest for one in second.objects]


def test_only_errors_are_denied():
    bindings = of_kind(rendered(AdmissionPolicies(actions=("Deny", "Audit"))), "ValidatingAdmissionPolicyBinding")
    actions = {tuple(one["spec"]["validationActions"]) for one in bindings.values()}
    assert actions == {("Deny", "Audit"), ("Warn", "Audit"), ("Audit",)}


def test_a_waiver_becomes_a_match_condition():
    waiver = Waiver("image-digest", "Deployment/paperclip-system/paperclip", "", "r", "o", datetime.date(2030, 1, 1), 1)
    with_it = of_kind(rendered(AdmissionPolicies(), Waivers(entries=(waiver,))), "ValidatingAdmissionPolicy")
    without = of_kind(rendered(AdmissionPolicies()), "ValidatingAdmissionPolicy")
    changed = {name for name in with_it if with_it[name] != without[name]}
    assert changed == {"paperclip-image-digest"}


def test_the_prefix_keeps_two_environments_apart():
    names = set(of_kind(rendered(AdmissionPolicies(prefix="staging")), "ValidatingAdmissionPolicy"))
    assert all(name.startswith("staging-") for name in names)


def test_an_older_cluster_is_refused():
    environment = loaded()
    values = environment.model_dump()
    values["cluster"]["kubernetes_version"] = "1.29"
    with pytest.raises(ValidationError, match=r"from Kubernetes 1\.30 on"):
        Environment.model_validate(values)


@pytest.mark.parametrize("actions", [(), ("Deny", "Warn"), ("Audit", "Audit"), ("Refuse",)])
def test_actions_that_are_impossible_are_refused(actions):
    with pytest.raises(ValidationError):
        AdmissionPolicies(actions=actions)
