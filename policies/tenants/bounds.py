"""What a tenant has: all that the plugin looks for, bounds, a namespace for itself, and no token."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kubekit import labels, pointers, tenants
from policies.model import Fault, Scope
from policies.registry import policy
from policies.tenants.whose import SOURCE, is_tenant, namespaces
from policies.world import Entry, World, mapping

_BOUNDED = ("pods", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_TOKENS = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/"
_QUOTAS = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"


@policy(
    "tenant-complete",
    title="A tenant has all that upstream's plugin looks for",
    rationale="The plugin keeps what is there by name and makes the rest, once, with values of its own that no later "
    "change of its config reaches; where the server may not create it, every run of the company fails.",
    remedy="render the object under that name: `tenants` of the config makes all of them",
    scope=Scope.SET,
    kinds=("Namespace",),
    links=(SOURCE,),
)
def tenant_complete(entry: Entry, world: World) -> Iterator[Fault]:
    if not is_tenant(entry):
        return
    place = entry.id.name
    for kind, name in tenants.EXPECTED:
        # Without any quota it is tenant-quota that says so.
        if not world.exists(kind, place, name) and (kind != "ResourceQuota" or world.within(kind, place)):
            yield Fault("", f"the tenant {place} has no {kind} {name}, and the plugin would make its own")
    either = (("NetworkPolicy", tenants.EGRESS), ("CiliumNetworkPolicy", tenants.EGRESS_CILIUM))
    if not any(world.exists(kind, place, name) for kind, name in either):
        wanted = " nor ".join(f"{kind} {name}" for kind, name in either)
        yield Fault("", f"the tenant {place} has neither {wanted}, and the plugin would make its own")


@policy(
    "tenant-quota",
    title="A quota bounds each tenant",
    rationale="All tenants share the nodes: without a quota the runs of one company leave no room for the others.",
    remedy=f"render the ResourceQuota {tenants.QUOTA} with pods, and requests and limits of cpu and memory",
    scope=Scope.SET,
    kinds=("Namespace",),
    links=(_QUOTAS,),
)
def tenant_quota(entry: Entry, world: World) -> Iterator[Fault]:
    if not is_tenant(entry):
        return
    bounded = {name for one in world.within("ResourceQuota", entry.id.name) for name in mapping(one.spec.get("hard"))}
    bounded |= {f"requests.{name}" for name in ("cpu", "memory") if name in bounded}
    if lacking := [name for name in _BOUNDED if name not in bounded]:
        yield Fault("", f"no ResourceQuota of the tenant {entry.id.name} bounds {', '.join(lacking)}, and one must")


@policy(
    "tenant-account-token",
    title="No account of a tenant hands out its token",
    rationale="An agent runs what strangers have written. A pod that names no account has that of the namespace's "
    "`default`, whose token is mounted unless the account says no.",
    remedy="render the ServiceAccount with automountServiceAccountToken: false, `default` too",
    scope=Scope.SET,
    kinds=("Namespace", "ServiceAccount"),
    links=(f"{_TOKENS}#opt-out-of-api-credential-automounting",),
)
def tenant_account_token(entry: Entry, world: World) -> Iterator[Fault]:
    if entry.id.kind == "Namespace":
        if is_tenant(entry) and not world.exists("ServiceAccount", entry.id.name, "default"):
            yield Fault("", f"the account default of the tenant {entry.id.name} must say no to its token (is not here)")
        return
    said = entry.manifest.get("automountServiceAccountToken")
    if entry.id.namespace in world.index(namespaces) and said is not False:
        found = "is absent, which means true" if said is None else f"is {json.dumps(said, default=str)}"
        pointer = "" if said is None else "/automountServiceAccountToken"
        yield Fault(pointer, f"automountServiceAccountToken must be false ({found})")


@policy(
    "tenant-apart",
    title="A tenant's namespace is its own",
    rationale="Who shares a namespace shares its Secrets, its quota and its egress. The plugin cuts a long slug, so "
    "that two companies may come to one namespace; and one named system or agents would come to ours.",
    remedy="set another companySlug in the plugin's config, and the namespace of the tenant to it",
    scope=Scope.SET,
    links=(SOURCE,),
)
def tenant_apart(entry: Entry, world: World) -> Iterator[Fault]:
    known = world.index(namespaces)
    if entry.id.kind == "Namespace" and known.get(entry.id.name) is entry:
        for who, selected in (("the server runs", labels.SERVER), ("our own agents run", labels.AGENT_JOB)):
            if any(one.id.namespace == entry.id.name and _has(pod.labels, selected) for one, pod in world.pods):
                yield Fault("", f"the tenant {entry.id.name} is where {who} as well, and must be apart")
    namespace = known.get(entry.id.namespace)
    if namespace is None:
        return
    owner = namespace.labels.get(tenants.COMPANY)
    for pointer, found in _labels(entry):
        company = found.get(tenants.COMPANY)
        if owner is not None and company is not None and company != owner:
            message = f"belongs to company {company}, and the namespace {entry.id.namespace} to company {owner}"
            yield Fault(pointers.join(pointer, tenants.COMPANY), f"{message}; each must have its own")


def _has(found: object, wanted: dict[str, str]) -> bool:
    return wanted.items() <= mapping(found).items()


def _labels(entry: Entry) -> Iterator[tuple[str, dict[str, object]]]:
    yield "/metadata/labels", dict(entry.labels)
    if entry.pod is not None and entry.id.kind != "Pod":
        yield f"{entry.pod.pointer.removesuffix('/spec')}/metadata/labels", dict(entry.pod.labels)
