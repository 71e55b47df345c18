"""Who is given rights: nobody in the whole cluster, nobody who is not there, and agents not at all."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels
from policies.cel import Cel
from policies.model import Fault, Scope
from policies.rbac.grants import BINDINGS, Account, Subject, role_ref, subjects_of
from policies.registry import policy
from policies.world import Entry, World

_RUNNER = "paperclip-agent-runner"
_OURS = ("paperclip", _RUNNER)
"""The names of our accounts: they are not configurable."""
_ADMIN = "cluster-admin"
_LINK = "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"
# What every cluster begins with: kubernetes.io/docs/reference/access-authn-authz/rbac, "Default roles".
_BUILT_IN = frozenset({"admin", "cluster-admin", "edit", "view"})
_SYSTEM = "system:"
_BUILT_IN_ROLES = frozenset({("kube-system", "extension-apiserver-authentication-reader")})
_PUBLIC = frozenset({"system:basic-user", "system:discovery", "system:public-info-viewer"})
"""What every cluster gives to everybody: who am I, and what is served here."""
_SYSTEM_NAMESPACE = "kube-system"


@policy(
    "rbac-no-cluster-scope",
    title="Rights end at the namespace",
    rationale=(
        "A ClusterRoleBinding holds in every namespace, also in those of others and of tomorrow: one stolen token of"
        " such an account is the whole cluster."
    ),
    remedy="bind the role by a RoleBinding in each namespace where it is needed",
    kinds=("ClusterRoleBinding",),
    links=(f"{_LINK}#least-privilege",),
    cel=Cel(
        expression=(
            f"object.roleRef.name != '{_ADMIN}'"
            f" && variables.labels[?'{labels.PART_OF}'].orValue('') != '{labels.PART_OF_PAPERCLIP}'"
            f" && !object.?subjects.orValue([]).exists(s, s.kind == 'ServiceAccount' && s.name in {[*_OURS]})"
        )
    ),
)
def rbac_no_cluster_scope(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    _, role = role_ref(entry)
    if role == _ADMIN:
        yield Fault("/roleRef/name", f"gives {_ADMIN}, which is every right on everything; no binding may")
    elif entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP:
        yield Fault("", f"gives {role!r} in every namespace, and must be a RoleBinding in one")
    else:
        for one in subjects_of(entry):
            if one.kind == "ServiceAccount" and one.name in _OURS:
                yield Fault(one.pointer, f"gives {one.account} {role!r} in every namespace, and must do so in one")


@policy(
    "rbac-ref-resolves",
    title="A binding's role and accounts are there",
    rationale=(
        "The API server takes a binding to a role or an account that does not exist: nothing is granted, and the"
        " program is refused with 403 at the first call."
    ),
    remedy="correct the name or the namespace, add the role or the account, or declare it as external",
    scope=Scope.SET,
    kinds=BINDINGS,
    links=("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#rolebinding-and-clusterrolebinding",),
)
def rbac_ref_resolves(entry: Entry, world: World) -> Iterator[Fault]:
    kind, name = role_ref(entry)
    if entry.id.kind == "ClusterRoleBinding" and kind == "Role":
        yield Fault("/roleRef/kind", f"a ClusterRoleBinding cannot give Role {name!r}; it must be a ClusterRole")
    elif name and not _role_exists(entry, kind, name, world):
        place = f'namespace "{entry.id.namespace}" has none' if kind == "Role" else "the set has none"
        yield Fault("/roleRef/name", f"gives {kind} {name!r}, and {place}; it must exist")
    for one in subjects_of(entry):
        yield from _subject_faults(one, world)


def _role_exists(entry: Entry, kind: str, name: str, world: World) -> bool:
    if kind == "ClusterRole":
        return name in _BUILT_IN or name.startswith(_SYSTEM) or world.exists(kind, "", name)
    if kind != "Role":
        return True  # the schema says so
    built_in = (entry.id.namespace, name) in _BUILT_IN_ROLES
    return built_in or name.startswith(_SYSTEM) or world.exists(kind, entry.id.namespace, name)


def _subject_faults(one: Subject, world: World) -> Iterator[Fault]:
    if one.account is not None and one.account.name:
        if one.kind == "ServiceAccount" and not one.namespace:
            yield Fault(one.pointer, f"service account {one.name!r} has no namespace here, and must have one")
        elif not _account_exists(one.account, world):
            yield Fault(f"{one.pointer}/name", f"service account {one.account} is not there, and must be")
    place = one.accounts_of
    if place and place != _SYSTEM_NAMESPACE and place not in world.index(_namespaces):
        yield Fault(
            f"{one.pointer}/name", f"means the accounts of namespace {place!r}, which is not there, and must be"
        )


def _account_exists(account: Account, world: World) -> bool:
    """Those of kube-system are the cluster's own; every namespace has an account `default`.

    An account without a namespace is made in one that is said later: it may be the one that is meant.
    """
    if account.namespace == _SYSTEM_NAMESPACE or world.exists("ServiceAccount", *account):
        return True
    if world.find("ServiceAccount", "", account.name) is not None:
        return True
    return account.name == "default" and account.namespace in world.index(_namespaces)


def _namespaces(world: World) -> frozenset[str]:
    """The namespaces that exist as far as the set and the facts say."""
    made = {entry.id.name for entry in world.by_kind.get("Namespace", ())}
    used = {entry.id.namespace for entry in world.entries if entry.id.namespace}
    declared = {one.name if one.kind == "Namespace" else one.namespace for one in world.facts.externals}
    return frozenset(made | used | declared | world.facts.namespaces | {"default"})


@policy(
    "agent-sa-unbound",
    title="An agent's account has no rights",
    rationale=(
        "An agent runs what a text tells it: any right of its account is a right of whoever writes an issue that it"
        " reads. Its token is not mounted, and a right would be there for whoever gets one made."
    ),
    remedy=(
        "remove the subject; what needs the API runs in a workload of its own, with an account of its own (a binding"
        " that is meant to be there is declared as an external)"
    ),
    scope=Scope.SET,
    kinds=BINDINGS,
    links=(_LINK,),
)
def agent_sa_unbound(entry: Entry, world: World) -> Iterator[Fault]:
    accounts = world.index(_agent_accounts)
    _, role = role_ref(entry)
    if not accounts or role in _PUBLIC or world.facts.external(entry.id.kind, entry.id.namespace, entry.id.name):
        return
    for one in subjects_of(entry):
        held = [account for account in sorted(accounts) if one.holds(account)]
        if held:
            through = f" as one of {one.name!r}" if one.kind == "Group" else ""
            yield Fault(one.pointer, f"gives {role!r} to {held[0]}{through}, under which agents run; it must have none")


def _agent_accounts(world: World) -> frozenset[Account]:
    """The accounts of agent pods, and those that are there for them."""
    found = {
        Account(entry.id.namespace, entry.id.name)
        for entry in world.by_kind.get("ServiceAccount", ())
        if entry.id.name == _RUNNER
    }
    for entry, pod in world.pods:
        if labels.AGENT_JOB.items() <= pod.labels.items():
            name = pod.spec.get("serviceAccountName") or pod.spec.get("serviceAccount") or "default"
            if isinstance(name, str):
                found.add(Account(entry.id.namespace, name))
    return frozenset(found)
