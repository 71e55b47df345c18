"""What an environment's config knows of its cluster, as the policies ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from charts_py.constructs.addresses import BALANCER
from policies.facts import API_VERSION, KIND, External, Facts, external_of, with_declared

if TYPE_CHECKING:
    from charts_py.config.environment import Environment
    from charts_py.config.secrets import SecretSpec
    from charts_py.images import ImageLock


def facts(environment: Environment | None, images: ImageLock | None = None) -> Facts:
    """Facts of the environment's cluster; those of the fleet (None) are nothing but the version."""
    if environment is None:
        return Facts()
    cluster, server = environment.cluster, environment.server
    system = environment.namespace.name
    pool = cluster.cilium.pool if cluster.cilium else None
    announcement = cluster.cilium.l2_announcement if cluster.cilium else None
    balancers = {f"{system}/{one.name}": one.load_balancer.ip for one in server.services if one.load_balancer}
    if server.load_balancer is not None:
        balancers[f"{system}/{BALANCER}"] = server.load_balancer.ip
    namespaces = {system, environment.agents.namespace, *(tenant.place for tenant in environment.tenants)}
    if environment.argocd is not None:
        namespaces.add(environment.argocd.namespace)
    store = environment.secret_store
    pinned = {image: digest for image in environment.images if (digest := images.digest_of(image))} if images else {}
    known = Facts(
        kubernetes_version=cluster.kubernetes_version,
        namespaces=frozenset(namespaces),
        externals=tuple(_externals(environment)),
        storage_classes={one.name: frozenset(one.access_modes) for one in cluster.storage_classes},
        # The config allows this mode for a cluster of one node alone.
        single_node=environment.agents.workspace.access_mode == "ReadWriteOnce",
        address_pools=((pool.start, pool.stop),) if pool is not None and not pool.render else (),
        announced=announcement is not None and not announcement.render,
        load_balancers=balancers,
        registries=environment.checks.registries,
        private_registries=environment.checks.private_registries,
        pinned_images=pinned,
        secret_stores=frozenset({f"{store.kind}/{store.name}"}) if store else frozenset(),
        cluster_cidrs=(*cluster.pod_cidrs, *cluster.service_cidrs, *cluster.node_cidrs),
        dns_namespace=cluster.dns.namespace,
        dns_labels=cluster.dns.pod_labels,
        api_clients=frozenset({f"{system}/paperclip"}) if environment.launcher.enabled else frozenset(),
    )
    return with_declared(known, tuple(external_of(text) for text in environment.checks.externals))


def launch_facts(environment: Environment, images: ImageLock | None = None) -> dict[str, Any]:
    """What the launcher must know to have a Job judged before it creates it, as a document of kind Facts."""
    known = facts(environment, images)
    agents = environment.agents.namespace
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "kubernetesVersion": known.kubernetes_version,
        "namespaces": [agents],
        "externals": sorted(str(one) for one in known.externals if one.namespace == agents),
        "registries": list(known.registries),
        "privateRegistries": list(known.private_registries),
        "pinnedImages": dict(sorted(known.pinned_images.items())),
    }


def _externals(environment: Environment) -> Iterator[External]:
    """What the config says is made elsewhere."""
    system, agents = environment.namespace.name, environment.agents.namespace
    yield External("Namespace", "", environment.cluster.dns.namespace)
    peers = [*environment.network.callers, *environment.network.destinations]
    peers += [peer for tenant in environment.tenants for peer in tenant.egress.destinations]
    yield from (External("Namespace", "", one.namespace) for one in peers if one.namespace)
    if environment.argocd is not None:
        yield External("Namespace", "", environment.argocd.namespace)
    for namespace, secrets in ((system, environment.server.secrets), (agents, environment.agents.secrets)):
        for secret in secrets:
            if environment.secret_store is None or secret.external or not secret.entries:
                yield External("Secret", namespace, secret.name, _keys(secret))
    sidecar = environment.launcher.sidecar
    if sidecar is not None and sidecar.workspace_claim is not None:
        modes = frozenset({environment.agents.workspace.access_mode})
        yield External("PersistentVolumeClaim", system, sidecar.workspace_claim, modes=modes)
    if environment.agents.jobs.priority_class is not None:
        yield External("PriorityClass", "", environment.agents.jobs.priority_class)
    yield from _of_database(environment)


def _keys(secret: SecretSpec) -> frozenset[str] | None:
    """None: the config does not say what is in it."""
    return frozenset({*(entry.key for entry in secret.entries), *secret.template}) or None


def _of_database(environment: Environment) -> Iterator[External]:
    database, system = environment.database, environment.namespace.name
    if database.kind == "bitnami":
        labels = {"app.kubernetes.io/name": "postgresql", "app.kubernetes.io/instance": database.release}
        yield External("StatefulSet", system, f"{database.release}-postgresql", labels=labels)
        if environment.secret_store is None:
            keys = frozenset(entry.key for entry in database.password_entries)
            yield External("Secret", system, database.password_secret, keys)
    elif database.kind == "external":
        yield External("Secret", system, database.secret, frozenset({database.key}))
        if database.namespace is not None:
            yield External("Namespace", "", database.namespace)
    else:
        # The operator makes them; the keys are those of its documentation, "Connecting from an application".
        yield External("Secret", system, f"{database.name}-app", frozenset({"username", "password", "host", "uri"}))
        labels = {"cnpg.io/cluster": database.name, "cnpg.io/podRole": "instance"}
        yield External("Pod", system, f"{database.name}-1", labels=labels)
        yield External("Namespace", "", "cnpg-system")
