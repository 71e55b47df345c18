"""Which namespaces are those of tenants, and what their agents look like to policies."""

from __future__ import annotations

from collections.abc import Mapping

from kubekit import tenants
from policies.network.reach import Reach, reach_of
from policies.network.terms import Subject
from policies.world import Entry, World

SOURCE = "https://github.com/paperclipai/paperclip/tree/master/packages/plugins/sandbox-providers/kubernetes"


def is_tenant(namespace: Entry) -> bool:
    """Whether the plugin's labels are on it."""
    return namespace.labels.get(tenants.MANAGED_BY) == tenants.PLUGIN or tenants.COMPANY in namespace.labels


def namespaces(world: World) -> Mapping[str, Entry]:
    """The Namespaces of tenants in the set, by name; `world.index` keeps them."""
    return {one.id.name: one for one in world.by_kind.get("Namespace", ()) if is_tenant(one)}


def agents(world: World) -> Mapping[str, Subject]:
    """The pods of each tenant's agents, which are in no manifest: the plugin makes them run by run."""
    reach: Reach = reach_of(world)
    return {
        name: Subject(
            f"the agents of {name}",
            name,
            tenants.AGENT,
            reach.labels_of(name),
            None,
            service_account=tenants.SERVICE_ACCOUNT,
        )
        for name in world.index(namespaces)
    }
