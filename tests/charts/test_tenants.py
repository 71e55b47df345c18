"""Tenants of upstream's plugin: what it looks for is there, under its names, and it needs no right to change it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from charts_py.checks import CheckSettings, judge
from charts_py.cli.main import main
from charts_py.config.environment import Environment
from charts_py.config.load import InvalidConfig, parse
from charts_py.constructs.tenants import CALLER
from charts_py.images import ImageLock
from charts_py.render import prepare, render
from kubekit import tenants
from kubekit.resources import group_of, resource_of
from policies.rbac.grants import rules_of
from policies.world import Entry

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("golden") / "tenants.yaml"
UUID = "9b2f0f0e-3a51-4a07-9c38-6f0a3f1e77d2"
# What the plugin asks for before each run, in this order; see kubekit/tenants.py.
READS = (
    ("", "namespaces", ""),
    *((group_of(kind), resource_of(kind), name) for kind, name in tenants.EXPECTED),
    ("networking.k8s.io", "networkpolicies", tenants.EGRESS),
)


def config(*found, name="minimal", **rest):
    tree = yaml.safe_load((ROOT / "environments" / f"{name}.yaml").read_text())
    return {**tree, **rest, "tenants": list(found)}


def loaded(*found, **rest):
    return Environment.model_validate_json(json.dumps(config(*found, **rest)), by_alias=True, by_name=False)


def made(*found, **rest):
    """The objects of the tenants' stack."""
    rendering = prepare(loaded(*found, **rest), ImageLock(), ROOT / "templates")
    return {str(one.id): one.manifest for one in rendering.objects if one.stack == "paperclip-tenants"}


def findings(environment, *, without=()):
    rendering = render(environment, ImageLock(), ROOT / "templates")
    found = judge(rendering, environment, ImageLock(), CheckSettings.none()).findings
    skipped = {"image-digest", "pull-policy-fits-pin", *without}
    return [one for one in found if one.policy not in skipped and not one.message.startswith("no schema for")]


def refused(*found, **rest):
    text = yaml.safe_dump(config(*found, **rest))
    with pytest.raises(InvalidConfig) as caught:
        parse(text.encode(), "here.yaml", Environment)
    return str(caught.value)


CILIUM = {"cluster": {"cilium": {}}}


def test_two_tenants_are_as_they_were():
    found = made(
        {"company": "acme", "egress": {"world": False, "fqdns": ["api.anthropic.com"]}},
        {
            "company": UUID,
            "namespace": "paperclip-globex",
            "backend": "sandbox-cr",
            "runGrants": True,
            "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/globex"},
        },
        **CILIUM,
    )
    text = yaml.safe_dump_all(found.values(), sort_keys=False, default_flow_style=None, width=110)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text


def test_without_tenants_there_is_no_stack():
    assert made() == {}


@pytest.mark.parametrize("name", ["minimal", "operating-post"])
def test_every_policy_passes_on_tenants(name):
    assert findings(loaded({"company": "acme"}, {"company": "globex", "runGrants": True}, name=name)) == []


def test_commands_in_pods_are_what_a_waiver_must_say():
    found = findings(loaded({"company": "acme", "backend": "sandbox-cr"}))
    assert {(one.policy, str(one.object)) for one in found} == {
        ("rbac-no-escalation", f"Role paperclip-acme/{CALLER}"),
    }


@pytest.mark.parametrize("cluster", [{}, CILIUM])
def test_the_plugin_finds_all_that_it_would_make(cluster):
    found = made({"company": "acme"}, **cluster)
    wanted = [f"{kind} paperclip-acme/{name}" for kind, name in tenants.EXPECTED]
    wanted += ["Namespace paperclip-acme", f"NetworkPolicy paperclip-acme/{tenants.EGRESS}"]
    # In either mode of its egress, whatever its config says.
    wanted += [f"CiliumNetworkPolicy paperclip-acme/{tenants.EGRESS_CILIUM}"] if cluster else []
    assert set(wanted) <= set(found)


@pytest.mark.parametrize("grants", [False, True])
@pytest.mark.parametrize("backend", ["job", "sandbox-cr"])
def test_the_server_may_look_and_may_not_replace(backend, grants):
    role = made({"company": "acme", "backend": backend, "runGrants": grants})[f"Role paperclip-acme/{CALLER}"]
    rules = list(rules_of(Entry(role, None)))
    for group, resource, name in READS:
        assert any(
            rule.covers(group, resource) and "get" in rule.verbs and (name or "paperclip-acme") in rule.names
            for rule in rules
        ), resource
    changed = {
        (resource, verb)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
        if verb not in {"get", "list"}
    }
    run = {("secrets", "create"), ("secrets", "delete"), ("pods", "delete")}
    run |= {("pods/exec", "create")} if backend == "sandbox-cr" else set()
    run |= {(f"{'sandboxes' if backend == 'sandbox-cr' else 'jobs'}", verb) for verb in ("create", "delete")}
    assert changed == run | ({("networkpolicies", "create")} if grants else set())


def test_the_agents_have_neither_a_token_nor_a_right():
    found = made({"company": "acme"})
    accounts = [one for one in found.values() if one["kind"] == "ServiceAccount"]
    assert {one["metadata"]["name"] for one in accounts} == {"default", tenants.SERVICE_ACCOUNT}
    assert {one["automountServiceAccountToken"] for one in accounts} == {False}
    assert found[f"Role paperclip-acme/{tenants.ROLE}"]["rules"] == []


def test_the_server_is_named_where_it_is_and_lets_the_tenants_in():
    found = made({"company": "acme"}, namespace={"name": "elsewhere"})
    out = found[f"NetworkPolicy paperclip-acme/{tenants.EGRESS}"]["spec"]["egress"]
    peers = [peer["namespaceSelector"]["matchLabels"] for rule in out for peer in rule["to"] if "podSelector" in peer]
    assert peers == [{"kubernetes.io/metadata.name": name} for name in ("kube-system", "elsewhere")]
    (rule,) = found["NetworkPolicy elsewhere/paperclip-server-tenants"]["spec"]["ingress"]
    assert rule["from"][0]["podSelector"] == {"matchLabels": tenants.AGENT}


def test_argo_cd_syncs_the_tenants_into_their_namespaces():
    argocd = {"repository": "https://github.com/example/state.git"}
    rendering = prepare(loaded({"company": "acme"}, argocd=argocd), ImageLock(), ROOT / "templates")
    of_argo = {str(one.id): one.manifest for one in rendering.objects if one.stack == "argocd"}
    destinations = of_argo["AppProject argocd/paperclip"]["spec"]["destinations"]
    assert "paperclip-acme" in [one["namespace"] for one in destinations]
    application = of_argo["Application argocd/paperclip-tenants"]
    assert application["spec"]["source"]["path"] == "dist/minimal/paperclip-tenants"


def test_one_name_in_several_namespaces_is_several_files(project, capsys):
    path = project / "environments" / "minimal.yaml"
    path.write_text(path.read_text() + "tenants: [{company: acme}, {company: globex}]\n")
    assert main(["synth", "--environment", "minimal", "--force"]) == 0
    stack = project / "dist" / "minimal" / "paperclip-tenants"
    for name in ("acme", "globex"):
        text = (stack / f"resourcequota-paperclip-{name}.{tenants.QUOTA}.yaml").read_text()
        assert yaml.safe_load(text)["metadata"]["namespace"] == f"paperclip-{name}"
    capsys.readouterr()
    assert main(["explain", f"ResourceQuota/paperclip-globex/{tenants.QUOTA}", "--environment", "minimal"]) == 0
    said = capsys.readouterr().out
    assert f"paperclip-tenants/paperclip-globex/resourcequota-{tenants.QUOTA}" in said
    assert "tenants[1].quota.pods" in said


@pytest.mark.parametrize(
    ("company", "slugs"),
    [
        ("acme", ("acme",)),
        ("Acme.Co_2", ("acme-co-2",)),
        ("...", ("company",)),
        (UUID, (UUID[:32], UUID)),
        ("a" * 31 + "-b", ("a" * 31, "a" * 31 + "-b")),
        ("a" * 60, ("a" * 32, "a" * 44 + "-11ee3912")),
    ],
)
def test_a_slug_is_that_of_the_plugin_in_each_of_its_builds(company, slugs):
    assert tenants.slugs(company) == slugs


@pytest.mark.parametrize(
    ("found", "rest", "said"),
    [
        ([{"company": UUID}], {}, f"paperclip-{UUID[:32]} or paperclip-{UUID}; set companySlug"),
        ([{"company": "acme"}, {"company": "acme", "namespace": "two"}], {}, "company acme stands twice"),
        ([{"company": "acme"}, {"company": "ACME"}], {}, "the namespace paperclip-acme is that of company acme"),
        ([{"company": "system"}], {}, "the namespace paperclip-system is the server's; set another companySlug"),
        ([{"company": "agents"}], {}, "the namespace paperclip-agents is the agents'"),
        ([{"company": "a", "namespace": "kube-a"}], {}, "the namespace kube-a is the cluster's"),
        ([{"company": "a", "namespace": "default"}], {}, "the namespace default is everybody's"),
        ([{"company": "a", "namespace": "kube-system"}], {}, "the namespace kube-system is that of DNS"),
        ([{"company": "Acme Co!"}], {}, "tenants[0].company"),
        ([{"company": ""}], {}, "tenants[0].company"),
        ([{"company": "a", "egress": {"fqdns": ["b.example"]}}], CILIUM, "`world: true` would hide `fqdns`"),
        ([{"company": "a", "egress": {"world": False, "fqdns": ["b.example"]}}], {}, "it needs `cluster.cilium`"),
        ([{"company": "a"}], {"launcher": {"enabled": False}}, "set `launcher.enabled: true`"),
        ([{"company": "a", "backend": "pod"}], {}, "tenants[0].backend"),
    ],
)
def test_a_tenant_that_cannot_be_says_what_to_write(found, rest, said):
    assert said in refused(*found, **rest)


def test_the_example_in_the_docs_is_rendered_without_a_finding():
    text = (ROOT / "docs/tenants.md").read_text()
    block = text.partition("```yaml\n")[2].partition("```")[0]
    environment = loaded(*yaml.safe_load(block)["tenants"])
    assert {one.place for one in environment.tenants} == {"paperclip-acme", "paperclip-globex"}
    assert findings(environment) == []
