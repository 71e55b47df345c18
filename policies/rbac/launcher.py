"""The launcher's rights are those of the calls that it makes: all of them, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubekit import labels
from kubekit.calls import LAUNCHER_CALLS
from policies.model import Fault, Scope, Severity
from policies.rbac.grants import Account, Rule, bindings_for, role_of, role_ref, rules_of, subjects_of
from policies.registry import policy
from policies.world import Entry, World

_LINKS = ("https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege",)
_ALLOWED = {(call.group, call.resource): frozenset(call.verbs) for call in LAUNCHER_CALLS}


@policy(
    "rbac-launcher-sufficient",
    title="The launcher may make every call that it makes",
    rationale=(
        "A verb that is missing shows when a run needs it: a Job is made and never watched, or a cancelled one is"
        " never deleted, and the launcher says 403."
    ),
    remedy="render the Role again; it is made from the launcher's own table of calls",
    scope=Scope.SET,
    kinds=("Role",),
    links=_LINKS,
)
def rbac_launcher_sufficient(entry: Entry, world: World) -> Iterator[Fault]:
    if not _of_launcher(entry):
        return
    accounts = _accounts(entry, world)
    if not accounts:
        yield Fault("/rules", f"no RoleBinding in {entry.id.namespace!r} gives it to an account, and one must")
    for account in accounts:
        granted, told = _granted(account, entry.id.namespace, world)
        if told:
            yield from _refused(entry, account, granted)


def _refused(entry: Entry, account: Account, granted: Sequence[Rule]) -> Iterator[Fault]:
    """What a call of the launcher would be refused."""
    own = list(rules_of(entry))
    for call in LAUNCHER_CALLS:
        missing = [
            verb for verb in call.verbs if not any(rule.allows(call.group, call.resource, verb) for rule in granted)
        ]
        if missing:
            near = next((rule for rule in own if rule.covers(call.group, call.resource)), None)
            what = f"{call.resource}.{call.group}" if call.group else call.resource
            why = "only by name" if near and near.names else "not"
            yield Fault(
                near.pointer if near else "/rules",
                f"{account} may {why} {', '.join(missing)} {what}, and must: {call.reason}",
            )


@policy(
    "rbac-launcher-minimal",
    title="The launcher may make no call that it does not make",
    rationale="What it may do beyond its work is what a stolen token of its pod may do.",
    remedy="take the right out; if the launcher needs it, add the call to its table",
    severity=Severity.WARNING,
    scope=Scope.SET,
    kinds=("Role", "ClusterRole", "RoleBinding"),
    links=_LINKS,
)
def rbac_launcher_minimal(entry: Entry, world: World) -> Iterator[Fault]:
    given = world.index(_given)
    if entry.id.kind == "RoleBinding":
        if id(entry) in given and role_of(entry, world) is None:
            kind, name = role_ref(entry)
            if world.facts.external(kind, "" if kind == "ClusterRole" else entry.id.namespace, name) is None:
                yield Fault("/roleRef/name", f"gives the launcher {kind} {name!r}, whose rules are not in the set")
        return
    if id(entry) not in given:
        return
    for rule in rules_of(entry):
        for group in rule.groups:
            for resource in rule.resources:
                surplus = [verb for verb in rule.verbs if verb not in _ALLOWED.get((group, resource), ())]
                if surplus:
                    what = f"{resource}.{group}" if group else resource
                    yield Fault(rule.pointer, f"the launcher never calls {', '.join(surplus)} on {what}; it must go")


def _of_launcher(entry: Entry) -> bool:
    ours = entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP
    return ours and entry.labels.get(labels.COMPONENT) == "launcher"


def _accounts(role: Entry, world: World) -> list[Account]:
    """Who is given the launcher's Role."""
    bound = [
        one.account
        for binding in world.within("RoleBinding", role.id.namespace)
        if role_ref(binding) == ("Role", role.id.name)
        for one in subjects_of(binding)
    ]
    return sorted({account for account in bound if account is not None})


def _granted(account: Account, namespace: str, world: World) -> tuple[list[Rule], bool]:
    """Every rule that holds for the account there, and whether these are all."""
    rules: list[Rule] = []
    told = True
    for binding in bindings_for(account, namespace, world):
        role = role_of(binding, world)
        if role is None:
            told = False
        else:
            rules += rules_of(role)
    return rules, told


def _given(world: World) -> frozenset[int]:
    """The id() of each role that a launcher has in its namespace, and of the bindings that give them."""
    found: set[int] = set()
    for role in world.by_kind.get("Role", ()):
        if not _of_launcher(role):
            continue
        found.add(id(role))
        for account in _accounts(role, world):
            for binding in world.within("RoleBinding", role.id.namespace):
                if any(one.account == account for one in subjects_of(binding)):
                    found.add(id(binding))
                    if (given := role_of(binding, world)) is not None:
                        found.add(id(given))
    return frozenset(found)
