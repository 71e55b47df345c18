"""Names of objects: legal, with room for what controllers append, and each only once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import labels, names, pointers
from policies.cel import Cel
from policies.model import Fault, Scope
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

# Their names become label values, host names or parts of the names of pods.
_LABELS = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "Namespace",
        "Pod",
        "ReplicaSet",
        "Rollout",
        "StatefulSet",
    },
)
# Kinds of ours whose names are DNS subdomains (Kubernetes "Object Names and IDs"); argo-app-name-headroom bounds the
# name of an Application.
_SUBDOMAINS = frozenset(
    {
        "Application",
        "CiliumL2AnnouncementPolicy",
        "CiliumLoadBalancerIPPool",
        "ConfigMap",
        "CustomResourceDefinition",
        "ExternalSecret",
        "Secret",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    },
)
_NAMED = _LABELS | {
    "ConfigMap",
    "ExternalSecret",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
}
_RBAC_GROUP = "rbac.authorization.k8s.io"
_HEADROOM: Mapping[str, tuple[int, str]] = {
    "CronJob": (52, "its Jobs get 11 more"),
    "StatefulSet": (52, "the label controller-revision-hash gets 11 more"),
}
_PREFIX = 57
_APPLICATION = 63
_RELEASE = 53
_NAME = "object.metadata.?name.orValue('')"


def _listed(kinds: frozenset[str]) -> str:
    return ", ".join(f"'{kind}'" for kind in sorted(kinds))


@policy(
    "name-dns-label",
    title="Names fit where Kubernetes puts them",
    rationale="A name becomes a label value, a host name or part of a pod's name: over 63 characters is refused.",
    remedy="shorten the name to 63 characters of a-z, 0-9 and `-`, starting and ending with a letter or digit",
    waivable=False,
    links=(
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
        "https://github.com/cdk8s-team/cdk8s/issues/1338",
    ),
    cel=Cel(
        "variables.name == '' ? object.metadata.?generateName.orValue('') != ''"
        " : object.kind in ['Role', 'RoleBinding'] ? !variables.name.contains('/') && !variables.name.contains('%')"
        " : object.kind == 'Service' ? variables.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')"
        " : object.kind in variables.shortNamed ? variables.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')"
        " : variables.labels[?'app.kubernetes.io/part-of'].orValue('') == 'paperclip'"
        " && !(object.kind in variables.longNamed) ? variables.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')"
        " : size(variables.name) <= 253"
        r" && variables.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        kinds=_NAMED,
        variables={
            "name": _NAME,
            "shortNamed": f"[{_listed(_LABELS)}]",
            "longNamed": f"[{_listed(_SUBDOMAINS)}]",
        },
        message="'the name ' + variables.name + ' must be at most 63 of a-z, 0-9 and -, with a letter or digit at both"
        " ends (a Service: a letter first)'",
    ),
)
def name_dns_label(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    name = entry.id.name
    if not name and _generate_name(entry):
        return
    if problem := _name_problem(entry, name):
        yield Fault("/metadata/name", f"name {name!r} {problem}")


def _name_problem(entry: Entry, name: str) -> str:
    kind = entry.id.kind
    if entry.id.group == _RBAC_GROUP:
        # Its names are parts of a path: "system:node" is one.
        bad = next((char for char in "/%" if char in name), None)
        return f'holds "{bad}", which no name of {_RBAC_GROUP} may' if bad else ""
    if kind == "Service":
        return names.explain_service_name(name)
    ours = entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP
    if kind in _LABELS or (ours and kind not in _SUBDOMAINS):
        return names.explain_dns_label(name)
    return names.explain_dns_subdomain(name)


def _generate_name(entry: Entry) -> str:
    prefix = mapping(entry.manifest.get("metadata")).get("generateName")
    return prefix if isinstance(prefix, str) else ""


@policy(
    "name-controller-headroom",
    title="Names leave room for what controllers append",
    rationale=(
        "The API server takes a StatefulSet of 63 characters, and then none of its pods: the label with the hash of"
        " its revision is too long. It cuts a long generateName, so that names lose what tells them apart."
    ),
    remedy="shorten it: 52 characters for a CronJob or StatefulSet, 57 for a generateName",
    waivable=False,
    links=(
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/",
        "https://github.com/kubernetes/kubernetes/issues/64023",
        "https://github.com/argoproj/argo-helm/issues/1328",
    ),
    cel=Cel(
        f"(!(object.kind in ['CronJob', 'StatefulSet']) || size({_NAME}) <= 52)"
        f" && size(object.metadata.?generateName.orValue('')) <= {_PREFIX}",
        kinds=frozenset({*_HEADROOM, "Job"}),
        message="names of CronJobs and StatefulSets have at most 52 characters, a generateName at most 57",
        partly="generateName of other kinds: controllers make pods with a long one, and those must pass",
    ),
)
def name_controller_headroom(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    most, why = _HEADROOM.get(entry.id.kind, (names.MAX_SUBDOMAIN, ""))
    if why and len(entry.id.name) > most:
        said = f"the name has {len(entry.id.name)} characters, and must have at most {most}: {why}"
        yield Fault("/metadata/name", said)
    prefix = _generate_name(entry)
    if len(prefix) > _PREFIX:
        said = f"generateName has {len(prefix)} characters, and must have at most {_PREFIX}: five more are appended"
        yield Fault("/metadata/generateName", said)


@policy(
    "argo-app-name-headroom",
    title="An Application's name fits a label and a Helm release",
    rationale=(
        "Argo CD tracks objects by a label with the Application's name and cuts it blindly at 63 characters: two"
        " Applications meet, or the label is illegal. Helm takes it for the release, and refuses more than 53."
    ),
    remedy="shorten the name to 63 characters, or 53 where Helm renders; or set helm.releaseName",
    kinds=("Application",),
    links=(
        "https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/",
        "https://github.com/argoproj/argo-cd/issues/10110",
        "https://github.com/argoproj/argo-cd/issues/13645",
        "https://github.com/argoproj/argo-cd/issues/18237",
    ),
    cel=Cel(
        f"size(object.metadata.name) <= {_APPLICATION} && variables.sources.all(s, !(has(s.chart) || has(s.helm))"
        f" || size(s.?helm.?releaseName.orValue('') == '' ? object.metadata.name : s.helm.releaseName) <= {_RELEASE})",
        variables={
            "sources": (
                "object.?spec.?sources.orValue([]) + (has(object.spec) && has(object.spec.source)"
                " ? [object.spec.source] : [])"
            ),
        },
        message="an Application's name has at most 63 characters, and a Helm release at most 53",
    ),
)
def argo_app_name_headroom(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    name = entry.id.name
    if len(name) > _APPLICATION:
        last = name[_APPLICATION - 1]
        cut = "" if last.isalnum() else f', and cut there it ends with "{last}", which no label may'
        yield Fault(
            "/metadata/name",
            f"the name has {len(name)} characters, and must have at most {_APPLICATION}: Argo CD's label cuts it{cut}",
        )
        return
    for pointer, source in _sources(entry.spec):
        helm = source.get("helm")
        if "chart" not in source and "helm" not in source:
            continue
        written = mapping(helm).get("releaseName")
        release = written if isinstance(written, str) and written else name
        if len(release) > _RELEASE:
            where = f"{pointer}/helm/releaseName" if release is written else "/metadata/name"
            yield Fault(
                where, f"the Helm release would have {len(release)} characters, and must have at most {_RELEASE}"
            )


def _sources(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(spec.get("source"), Mapping):
        yield "/spec/source", spec["source"]
    for index, source in enumerate(sequence(spec.get("sources"))):
        if isinstance(source, Mapping):
            yield pointers.join("/spec/sources", index), source


@policy(
    "unique-identity",
    title="No object stands twice",
    rationale="Of two objects with one identity the later one wins, and which is later depends on the tool.",
    remedy="rename one of them, or remove it",
    waivable=False,
    scope=Scope.SET,
    links=(
        "https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#fail-the-sync-if-a-shared-resource-is-found",
    ),
)
def unique_identity(entry: Entry, world: World) -> Iterator[Fault]:
    if not entry.id.name:
        return  # a generateName makes another name each time; no name at all is name-dns-label's
    same = world.by_identity[entry.id.identity]
    if len(same) > 1 and same[0] is not entry:
        first = f" (first: {same[0].source})" if same[0].source else ""
        yield Fault("", f"{entry.id} stands {len(same)} times in this set{first}")
