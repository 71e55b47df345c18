"""Who is bound to which rules, and what rules mean (k8s.io/kubernetes, pkg/registry/rbac/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from policies.world import Entry, World, mapping, sequence

BINDINGS = ("RoleBinding", "ClusterRoleBinding")
ROLES = ("Role", "ClusterRole")
_ACCOUNT_USER = "system:serviceaccount:"
_ACCOUNT_GROUP = "system:serviceaccounts"
EVERYBODY = frozenset({_ACCOUNT_GROUP, "system:authenticated"})
"""Groups that every service account is in."""


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Rule:
    """One rule of a Role; `pointer` leads to it."""

    pointer: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...]
    urls: tuple[str, ...]

    def covers(self, group: str, resource: str) -> bool:
        """Whether it is about the resource: "*" is all, "*/log" that of every resource, "pods" none of its parts."""
        wanted = {"*", resource}
        if "/" in resource:
            wanted.add(f"*/{resource.partition('/')[2]}")
        return bool(wanted.intersection(self.resources)) and bool({"*", group}.intersection(self.groups))

    def allows(self, group: str, resource: str, verb: str) -> bool:
        """Whether it grants the verb on every object of the resource."""
        return not self.names and self.covers(group, resource) and bool({"*", verb}.intersection(self.verbs))


@dataclass(frozen=True)
class Subject:
    """One subject of a binding; `account` is set where it is a service account, however it is written."""

    pointer: str
    kind: str
    name: str
    namespace: str
    account: Account | None

    @property
    def accounts_of(self) -> str | None:
        """The namespace whose accounts are all meant, if it is their group."""
        prefix = f"{_ACCOUNT_GROUP}:"
        return self.name.removeprefix(prefix) if self.kind == "Group" and self.name.startswith(prefix) else None

    def holds(self, account: Account) -> bool:
        """Whether the account is it, or in it."""
        if self.kind == "Group":
            return self.name in EVERYBODY or self.accounts_of == account.namespace
        return self.account == account


def rules_of(entry: Entry) -> Iterator[Rule]:
    """The rules of a Role or ClusterRole."""
    for index, found in enumerate(sequence(entry.manifest.get("rules"))):
        if isinstance(found, Mapping):
            yield Rule(
                f"/rules/{index}",
                _texts(found, "apiGroups"),
                _texts(found, "resources"),
                _texts(found, "verbs"),
                _texts(found, "resourceNames"),
                _texts(found, "nonResourceURLs"),
            )


def subjects_of(entry: Entry) -> Iterator[Subject]:
    """The subjects of a binding."""
    for index, found in enumerate(sequence(entry.manifest.get("subjects"))):
        if isinstance(found, Mapping):
            kind, name, namespace = (_text(found, field) for field in ("kind", "name", "namespace"))
            yield Subject(f"/subjects/{index}", kind, name, namespace, _account(kind, name, namespace))


def _account(kind: str, name: str, namespace: str) -> Account | None:
    if kind == "ServiceAccount":
        return Account(namespace, name)
    if kind == "User" and name.startswith(_ACCOUNT_USER):
        place, _, short = name.removeprefix(_ACCOUNT_USER).partition(":")
        return Account(place, short)
    return None


def role_ref(entry: Entry) -> tuple[str, str]:
    """(kind, name) of the role that a binding gives."""
    reference = mapping(entry.manifest.get("roleRef"))
    return _text(reference, "kind"), _text(reference, "name")


def role_of(entry: Entry, world: World) -> Entry | None:
    """The role that a binding gives, if it is in the set."""
    kind, name = role_ref(entry)
    return world.find(kind, entry.id.namespace if kind == "Role" else "", name) if kind in ROLES else None


def bindings_for(account: Account, namespace: str, world: World) -> Iterator[Entry]:
    """Every binding that gives the account rights in the namespace."""
    for entry in (*world.within("RoleBinding", namespace), *world.by_kind.get("ClusterRoleBinding", ())):
        if any(one.holds(account) for one in subjects_of(entry)):
            yield entry


def _texts(source: Mapping[str, Any], field: str) -> tuple[str, ...]:
    return tuple(one for one in sequence(source.get(field)) if isinstance(one, str))


def _text(source: Mapping[str, Any], field: str) -> str:
    value = source.get(field)
    return value if isinstance(value, str) else ""
