"""The account of who may reach what says what holds, and what a reader would not expect."""

from __future__ import annotations

import pytest

from policies.network.reach import reach_of
from policies.network.report import report
from policies.world import World
from tests.support import fixtures

AGENTS = "paperclip-agents"
RUN = f"Job {AGENTS}/run-1-3132caff1b886b32"
DNS = {
    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}
NAMES = {"toFQDNs": [{"matchName": "api.anthropic.com"}], "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}]}


def made(kind, name, spec, namespace=AGENTS):
    api = "networking.k8s.io/v1" if kind == "NetworkPolicy" else "cilium.io/v2"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def about(name, *, egress=None, extra=(), without=()):
    """The report of one workload of the base; `egress` are the rules of the agents' own policy."""
    objects, facts = fixtures.base()
    kept = [one for one in objects if fixtures.written(one) not in without]
    if egress is not None:
        spec = {"podSelector": {"matchLabels": {"app.kubernetes.io/component": "agent-job"}}, "egress": egress}
        kept = [one for one in kept if one["metadata"]["name"] != "agent-egress"]
        kept.append(made("NetworkPolicy", "agent-egress", {**spec, "policyTypes": ["Egress"]}))
    world = World([(one, None) for one in [*kept, *extra]], facts)
    (found,) = [one for one in report(reach_of(world)) if one.name == name]
    return found


def reaches(found):
    return dict(found.reaches)


def block(cidr, *excepts, port=443):
    one = {"cidr": cidr, "except": list(excepts)} if excepts else {"cidr": cidr}
    return {"to": [{"ipBlock": one}], "ports": [{"port": port}]}


def test_a_run_of_the_base():
    found = about(RUN)
    assert reaches(found) == {
        "cloud metadata": "no",
        "private networks": "no",
        "cluster addresses": "only the pods that are named",
        "API server": "no, unless its address is public (TCP 443, 80, 22)",
        "internet": "TCP 443, 80, 22",
    }
    assert [(one.peer, one.ports) for one in found.egress.allows][:3] == [
        ("pods with k8s-app=kube-dns of namespace kube-system", "UDP 53; TCP 53"),
        ("Deployment paperclip-system/paperclip", "TCP 3100"),
        ("the world: 0.0.0.0/0 minus 10 ranges", "TCP 443, 80, 22"),
    ]
    assert (found.ingress.open, found.ingress.allows) == (False, ())
    assert found.ingress.isolated_by == ("NetworkPolicy paperclip-agents/default-deny",)


def test_the_server_of_the_base():
    found = about("Deployment paperclip-system/paperclip")
    assert reaches(found)["API server"] == "yes (TCP 6443)"
    assert reaches(found)["private networks"] == "only 192.168.55.21/32, 192.168.55.22/31 (TCP 6443)"
    callers = [one.peer for one in found.ingress.allows]
    assert callers == [RUN, "192.168.55.0/24 (of the cluster)", "the node that it runs on", "the other nodes"]
    assert any("addresses never mean pods" in note for note in found.notes)


def test_what_no_policy_selects_is_open():
    policies = [
        f"{kind}/{AGENTS}/{name}"
        for kind, name in (("NetworkPolicy", "default-deny"), ("NetworkPolicy", "agent-egress"))
    ]
    found = about(RUN, without=policies)
    assert found.egress.open
    assert found.ingress.open
    assert found.enforced == "not at all: no policy selects it"
    assert reaches(found) == {
        "cloud metadata": "yes (all ports)",
        "private networks": "all (all ports)",
        "cluster addresses": "all (all ports)",
        "API server": "yes (all ports)",
        "internet": "all ports",
    }


def test_a_wide_rule_is_said_to_hide_the_names():
    names = made("CiliumNetworkPolicy", "names", {"endpointSelector": {}, "egress": [NAMES]})
    found = about(RUN, egress=[DNS, block("0.0.0.0/0", "10.0.0.0/8")], extra=[names])
    said = "NetworkPolicy paperclip-agents/agent-egress allows the whole world on TCP 443; the names in "
    assert any(note.startswith(said) for note in found.notes)
    assert "which narrow nothing" in reaches(found)["internet"]
    assert found.enforced == "by address alone: the world is open, whatever names are allowed besides"
    alone = about(RUN, egress=[DNS], extra=[names])
    assert alone.enforced == "by name (Cilium)"
    assert reaches(alone)["internet"] == "only the names api.anthropic.com (TCP 443)"
    assert not any("narrow nothing" in note for note in alone.notes)


@pytest.mark.parametrize(
    ("rules", "question", "answer"),
    [
        ([block("0.0.0.0/0", "10.0.0.0/8")], "cloud metadata", "yes (TCP 443)"),
        ([block("0.0.0.0/0", "10.0.0.0/8")], "internet", "TCP 443 (IPv4 alone)"),
        ([block("203.0.113.7/32")], "internet", "only 203.0.113.7/32 (TCP 443)"),
        ([block("10.1.0.0/16", "10.1.2.0/24")], "internet", "no"),
        ([block("10.1.2.0/24", port=80)], "private networks", "only 10.1.2.0/24 (TCP 80)"),
        ([DNS], "internet", "no"),
        ([{}], "private networks", "all (all ports)"),
        ([{"to": [{"namespaceSelector": {}}]}], "cluster addresses", "all (all ports)"),
    ],
)
def test_what_addresses_mean(rules, question, answer):
    assert reaches(about(RUN, egress=rules))[question] == answer


def test_an_address_may_be_the_api_servers_where_cilium_is_not():
    without = ["CiliumNetworkPolicy/paperclip-system/paperclip-server-entities"]
    found = about("Deployment paperclip-system/paperclip", without=without)
    assert reaches(found)["API server"] == "only if it is at 192.168.55.21/32, 192.168.55.22/31 (TCP 6443)"
    assert found.notes == ()


def test_a_deny_takes_away():
    spec = {
        "endpointSelector": {},
        "egress": [{"toEntities": ["world"]}],
        "egressDeny": [{"toCIDR": ["169.254.0.0/16"]}],
    }
    found = about(RUN, egress=[DNS], extra=[made("CiliumNetworkPolicy", "world", spec)])
    assert reaches(found)["cloud metadata"] == "yes (all ports)"  # fd00:ec2::254 is left
    spec["egressDeny"][0]["toCIDR"].append("fd00::/8")
    found = about(RUN, egress=[DNS], extra=[made("CiliumNetworkPolicy", "world", spec)])
    assert reaches(found)["cloud metadata"] == "no"
    assert [one.peer for one in found.egress.denies] == ["169.254.0.0/16 (metadata of the cloud)", "fd00::/8 (private)"]


def test_what_the_way_out_goes_by():
    assert about(RUN).enforced == "by address alone: the world is open"
    assert about(RUN, egress=[block("203.0.113.7/32")]).enforced == "by address"
    assert about(RUN, egress=[DNS]).enforced == "nothing outside the cluster is allowed"


def test_lookups_that_fail_are_told():
    found = about(RUN, egress=[block("203.0.113.7/32")])
    assert any("cannot look names up: UDP 53 and TCP 53" in note for note in found.notes)


def test_peers_of_cilium_are_told_in_words():
    spec = {
        "endpointSelector": {},
        "egress": [
            {"toEntities": ["kube-apiserver", "health"]},
            {"toEndpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": "litellm", "k8s:app": "proxy"}}]},
            {"toEndpoints": [{}]},
            {"toServices": [{"k8sService": {"serviceName": "db", "namespace": "litellm"}}]},
            {"toCIDRSet": [{"cidrGroupRef": "office"}]},
            {
                "toFQDNs": [{"matchPattern": "*.example.com"}],
                "toPorts": [{"ports": [{"port": "443"}], "rules": {"http": []}}],
            },
        ],
    }
    found = about(RUN, egress=[], extra=[made("CiliumNetworkPolicy", "many", spec)])
    assert [(one.peer, one.ports) for one in found.egress.allows] == [
        ("the API server", "all ports"),
        ("the entity health", "all ports"),
        ("pods with app=proxy of namespace litellm", "all ports"),
        ("every pod of namespace paperclip-agents", "all ports"),
        ("Service litellm/db", "all ports"),
        ("the group of addresses office", "all ports"),
        ("name *.example.com", "any protocol 443 (http inspected)"),
    ]
    assert reaches(found)["API server"] == "yes (all ports)"


def test_pods_on_the_network_of_their_node():
    objects, _ = fixtures.base()
    (job,) = [one for one in objects if one["kind"] == "Job"]
    host = {**job, "metadata": {**job["metadata"], "name": "host"}}
    template = job["spec"]["template"]
    host["spec"] = {**job["spec"], "template": {**template, "spec": {**template["spec"], "hostNetwork": True}}}
    found = about(f"Job {AGENTS}/host", extra=[host])
    assert reaches(found) == {"anything": "yes: it is on the network of its node, where no policy counts"}
    assert found.egress.open
