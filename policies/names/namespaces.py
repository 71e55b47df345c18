"""Namespaces: said, the right ones, and there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kubekit.resources import group_of
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope
from policies.registry import policy
from policies.world import PODS, Entry, World

_ALWAYS = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
_NAMESPACED = frozenset(
    {
        *PODS,
        "Application",
        "AppProject",
        "CiliumNetworkPolicy",
        "ConfigMap",
        "ExternalSecret",
        "HorizontalPodAutoscaler",
        "Ingress",
        "LimitRange",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
    },
)


def _namespaced(entry: Entry) -> bool:
    """Whether it is of a kind that we know to stand in namespaces."""
    return group_of(entry.id.kind) == entry.id.group and not entry.id.cluster_scoped


def _explicit(facts: Facts) -> Cel:
    known = ", ".join(f"'{name}'" for name in sorted(facts.namespaces))
    listed = f" && variables.place in [{known}]" if known else ""
    return Cel(
        f"variables.place != 'default'{listed}",
        kinds=_NAMESPACED,
        variables={"place": "object.metadata.?namespace.orValue('default')"},
        message=f"objects stand in {known}" if known else "nothing stands in the namespace default",
    )


@policy(
    "namespace-explicit",
    title="Every object says its namespace, and it is one of the set's own",
    rationale=(
        "Without a namespace an object lands wherever the tool that applies it happens to point, most often in"
        " `default`, where no quota and no network policy waits for it."
    ),
    remedy="write metadata.namespace: one of the stack's own namespaces, never `default`",
    links=(
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
        "https://docs.kubelinter.io/#/generated/checks?id=use-namespace",
    ),
    cel=_explicit,
)
def namespace_explicit(entry: Entry, world: World) -> Iterator[Fault]:
    if not _namespaced(entry):
        return
    namespace, known = entry.id.namespace, world.facts.namespaces
    wanted = " or ".join(sorted(known)) or "another than `default`"
    if not namespace:
        yield Fault("/metadata", f"{entry.id} says no namespace, and must say one: {wanted}")
    elif namespace == "default":
        yield Fault("/metadata/namespace", f"{entry.id} stands in `default`, and must stand in {wanted}")
    elif known and namespace not in known:
        yield Fault("/metadata/namespace", f"{entry.id} stands in {namespace}, and must stand in {wanted}")


@policy(
    "namespace-in-set",
    title="Every namespace that is used is there",
    rationale="The API server refuses an object whose namespace does not exist: the sync stops half-way.",
    remedy="render the Namespace, or declare it as an external (`checks.externals: [Namespace/NAME]`)",
    scope=Scope.SET,
    links=(
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
        "https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#create-namespace",
    ),
)
def namespace_in_set(entry: Entry, world: World) -> Iterator[Fault]:
    namespace = entry.id.namespace
    first, count = world.index(_missing).get(namespace, (None, 0))
    if first is entry:
        others = f" ({count} objects stand in it)" if count > 1 else ""
        yield Fault(
            "/metadata/namespace",
            f"the namespace {namespace} is neither in the set nor declared, and must be one of the two{others}",
        )


def _missing(world: World) -> Mapping[str, tuple[Entry, int]]:
    """Namespace that is nowhere to its first object and the number of them: one finding for each namespace.

    Manifests that bring no Namespace say nothing of namespaces: those are made by others.
    """
    if "Namespace" not in world.by_kind and not world.facts.namespaces:
        return {}
    namespaces = Counter(entry.id.namespace for entry in world.entries if _namespaced(entry))
    absent = {name for name in namespaces if name and name not in _ALWAYS and not world.exists("Namespace", "", name)}
    first: dict[str, Entry] = {}
    for entry in world.entries:
        if entry.id.namespace in absent and _namespaced(entry):
            first.setdefault(entry.id.namespace, entry)
    return {name: (entry, namespaces[name]) for name, entry in first.items()}
