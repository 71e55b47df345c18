"""The tenants of upstream's plugin: every object that it looks for, under its names, with our values.

The plugin creates what is absent and leaves what is there (kubekit/tenants.py says where that stands). So whoever is
first decides, and the server needs no right to create namespaces, accounts, roles, quotas or policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.tenants import Tenant
from charts_py.constructs import flows, network
from charts_py.constructs.addresses import PORT
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from charts_py.constructs.namespaces import namespace
from charts_py.constructs.quotas import limit_range, resource_quota
from charts_py.constructs.server import SERVICE_ACCOUNT
from kubekit import calls, labels, tenants
from kubekit.calls import Call
from kubekit.identity import Manifest

COMPONENT = "tenant"
CALLER = "paperclip-plugin"
"""The name of the server's Role, which the plugin does not ship."""

_NAMED = (
    Call("", "namespaces", ("get",), "whether the tenant is there"),
    Call("", "serviceaccounts", ("get",), "whether it is there"),
    Call("rbac.authorization.k8s.io", "roles", ("get",), "whether it is there"),
    Call("rbac.authorization.k8s.io", "rolebindings", ("get",), "whether it is there"),
    Call("", "resourcequotas", ("get",), "whether it is there"),
    Call("", "limitranges", ("get",), "whether it is there"),
    # Neither update nor patch: builds that would replace these then keep ours.
    Call("networking.k8s.io", "networkpolicies", ("get",), "whether they are there"),
    Call("cilium.io", "ciliumnetworkpolicies", ("get",), "whether it is there"),
)
_ALWAYS = (
    Call("", "pods", ("get", "list", "delete"), "the probe of the environment; the pod of a run, and its end"),
    Call("", "pods/log", ("get",), "the log of a run"),
    # Neither get nor list: the plugin writes the keys of a run and never reads them back.
    Call("", "secrets", ("create", "delete"), "the keys of one run"),
)
_OF_BACKEND = {
    "job": (Call("batch", "jobs", ("create", "get", "delete"), "a run is a Job"),),
    "sandbox-cr": (
        Call("agents.x-k8s.io", "sandboxes", ("create", "get", "delete"), "a run is a Sandbox"),
        # A WebSocket opens with a GET, for which API servers ask for get, newer ones for create as well.
        Call("", "pods/exec", ("create", "get"), "each step of a run is a command in its pod"),
    ),
}
_GRANTS = (
    Call("networking.k8s.io", "networkpolicies", ("create",), "the destinations of a single run"),
    Call("cilium.io", "ciliumnetworkpolicies", ("create",), "the destinations of a single run"),
)


class Tenants(Concept):
    """Each tenant's namespace and what bounds it; and the way of all of them into the server."""

    concept = "tenants"
    by_namespace = True

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        for tenant in environment.tenants:
            yield _marked(namespace(environment, tenant.place, COMPONENT, "restricted"), tenant)
            yield from _access(environment, tenant)
            yield from _bounds(environment, tenant)
            yield from _network(environment, tenant)
        if environment.tenants:
            yield _into_server(environment)


def _marked(manifest: Manifest, tenant: Tenant) -> Manifest:
    """With the labels by which people find what is the plugin's and whose it is."""
    manifest["metadata"]["labels"] |= {tenants.COMPANY: tenant.company, tenants.MANAGED_BY: tenants.PLUGIN}
    return manifest


def _object(environment: Environment, tenant: Tenant, api: str, kind: str, name: str, **rest: Any) -> Manifest:
    described = metadata(environment, kind, name, tenant.place, COMPONENT)
    return _marked({"apiVersion": api, "kind": kind, "metadata": described, **rest}, tenant)


def _access(environment: Environment, tenant: Tenant) -> Iterator[Manifest]:
    """The agents' accounts, which have no token and no rights, and what the server may do here."""
    rbac = "rbac.authorization.k8s.io"
    for name in ("default", tenants.SERVICE_ACCOUNT):
        account = _object(environment, tenant, "v1", "ServiceAccount", name, automountServiceAccountToken=False)
        if name != "default" and tenant.service_account_annotations:
            notes = {**account["metadata"].get("annotations", {}), **tenant.service_account_annotations}
            account["metadata"]["annotations"] = notes
        yield account
    # The plugin's own lets agents read every log of the namespace; ours keeps the name and grants nothing.
    given = (
        (tenants.ROLE, tenants.ROLE_BINDING, list[dict[str, list[str]]](), tenants.SERVICE_ACCOUNT, tenant.place),
        (CALLER, CALLER, _rules(environment, tenant), SERVICE_ACCOUNT, environment.namespace.name),
    )
    for role, binding, rules, account_name, where in given:
        yield _object(environment, tenant, f"{rbac}/v1", "Role", role, rules=rules)
        yield _object(
            environment,
            tenant,
            f"{rbac}/v1",
            "RoleBinding",
            binding,
            roleRef={"apiGroup": rbac, "kind": "Role", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": account_name, "namespace": where}],
        )


def _rules(environment: Environment, tenant: Tenant) -> list[dict[str, list[str]]]:
    cilium = environment.cluster.cilium is not None
    named = {
        "namespaces": [tenant.place],
        "serviceaccounts": [tenants.SERVICE_ACCOUNT],
        "roles": [tenants.ROLE],
        "rolebindings": [tenants.ROLE_BINDING],
        "resourcequotas": [tenants.QUOTA],
        "limitranges": [tenants.LIMITS],
        "networkpolicies": [tenants.DENY, tenants.EGRESS],
        "ciliumnetworkpolicies": [tenants.EGRESS_CILIUM],
    }
    wanted = [call for call in _NAMED if cilium or call.group != "cilium.io"]
    rules = calls.rules(tuple(wanted))
    for rule, call in zip(rules, wanted, strict=True):
        rule["resourceNames"] = named[call.resource]
    grants = [call for call in _GRANTS if tenant.run_grants and (cilium or call.group != "cilium.io")]
    return [*rules, *calls.rules((*_ALWAYS, *_OF_BACKEND[tenant.backend], *grants))]


def _bounds(environment: Environment, tenant: Tenant) -> Iterator[Manifest]:
    quota = metadata(environment, "ResourceQuota", tenants.QUOTA, tenant.place, COMPONENT)
    yield _marked(resource_quota(quota, tenant.quota), tenant)
    limits = metadata(environment, "LimitRange", tenants.LIMITS, tenant.place, COMPONENT)
    yield _marked(limit_range(limits, tenant.container_limits), tenant)


def _network(environment: Environment, tenant: Tenant) -> Iterator[Manifest]:
    """Both policies on a cluster with Cilium: which one the plugin looks for is a setting of the plugin."""
    place, egress = tenant.place, tenant.egress
    yield _marked(flows.policy(environment, tenants.DENY, place, COMPONENT, {}, ingress=[], egress=[]), tenant)
    rules = network.out_of_agents(environment, egress)
    yield _marked(flows.policy(environment, tenants.EGRESS, place, COMPONENT, tenants.AGENT, egress=rules), tenant)
    if environment.cluster.cilium is None:
        return
    spec = network.by_names(environment, egress, tenants.AGENT)
    server = {"k8s:io.kubernetes.pod.namespace": environment.namespace.name}
    server |= {f"k8s:{key}": value for key, value in labels.SERVER.items()}
    ports = [{"ports": [{"port": str(PORT), "protocol": "TCP"}]}]
    spec["egress"].append({"toEndpoints": [{"matchLabels": server}], "toPorts": ports})
    yield _object(environment, tenant, "cilium.io/v2", "CiliumNetworkPolicy", tenants.EGRESS_CILIUM, spec=spec)


def _into_server(environment: Environment) -> Manifest:
    """The other end of what the tenants' egress allows: it stands in the server's namespace and goes with them."""
    peers = [flows.pods(tenant.place, tenants.AGENT) for tenant in environment.tenants]
    rules = [flows.rule("from", peers, flows.tcp(PORT))]
    place = environment.namespace.name
    return flows.policy(environment, "paperclip-server-tenants", place, COMPONENT, labels.SERVER, ingress=rules)
