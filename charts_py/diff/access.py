"""Whether somebody may do or reach more than before. In doubt yes: a wrong no is the costly one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from charts_py.diff.compare import canonical
from charts_py.diff.verdict import Verdict, at, items_at, kind_key
from kubekit import pointers
from kubekit.identity import Manifest

_WIDENED = "access widened"
_ROLES = ("rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/ClusterRole")
_BINDINGS = ("rbac.authorization.k8s.io/RoleBinding", "rbac.authorization.k8s.io/ClusterRoleBinding")
_POLICIES = ("networking.k8s.io/NetworkPolicy",)
_CILIUM = ("cilium.io/CiliumNetworkPolicy", "cilium.io/CiliumClusterwideNetworkPolicy")
_PROJECT_LISTS = ("sourceRepos", "destinations", "clusterResourceWhitelist", "namespaceResourceWhitelist")
_POD_SWITCHES = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "privileged",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
    }
)
_PUBLIC_TYPES = ("LoadBalancer", "NodePort")


def added(manifest: Manifest) -> Iterator[Verdict]:
    kind = kind_key(manifest)
    if kind in _ROLES and manifest.get("rules"):
        yield Verdict(_WIDENED, "a new role", "/rules")
    if kind in _BINDINGS:
        yield Verdict(_WIDENED, "a new binding", "/subjects")
    if kind in (*_POLICIES, *_CILIUM) and any(_rules(manifest, field) for field in ("ingress", "egress")):
        yield Verdict(_WIDENED, "a new policy that lets something pass", "/spec")


def changed(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    judge = _JUDGES.get(kind_key(new))
    if judge is not None:
        yield from judge(old, new)
    yield from _switches(old, new)


def _role(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    before = _rule_list(old.get("rules"))
    for index, rule in enumerate(_rule_list(new.get("rules"))):
        if not all(any(_allows(known, atom) for known in before) for atom in _atoms(rule)):
            yield Verdict(_WIDENED, "the role allows more", pointers.join("/rules", index))
    if new.get("aggregationRule") and canonical(new.get("aggregationRule")) != canonical(old.get("aggregationRule")):
        yield Verdict(_WIDENED, "the role gathers others", "/aggregationRule")


def _binding(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    yield from _grown(old, new, ("subjects",), "more may use the role")


def _network_policy(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    before, after = _types(old), _types(new)
    if not before <= after:
        gone = ", ".join(sorted(before - after))
        yield Verdict(_WIDENED, f"no longer held back: {gone}", "/spec/policyTypes")
    if canonical(at(old, "spec", "podSelector")) != canonical(at(new, "spec", "podSelector")):
        yield Verdict(_WIDENED, "other pods are held back than before", "/spec/podSelector")
    for field, peers in (("ingress", "from"), ("egress", "to")):
        if field.capitalize() in after & before:
            yield from _wider_rules(old, new, field, frozenset({peers, "ports"}))


def _cilium_policy(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    """Only toPorts narrows a Cilium rule that had none: another kind of peer is one more way in."""
    for field in ("endpointSelector", "nodeSelector", "enableDefaultDeny"):
        if canonical(at(old, "spec", field)) != canonical(at(new, "spec", field)):
            yield Verdict(_WIDENED, "others are held back than before", f"/spec/{field}")
    if canonical(old.get("specs")) != canonical(new.get("specs")):
        yield Verdict(_WIDENED, "its rules changed", "/specs")
    for field in ("ingress", "egress"):
        yield from _wider_rules(old, new, field, frozenset({"toPorts"}))
        denied = f"{field}Deny"
        if any(canonical(rule) not in map(canonical, _rules(new, denied)) for rule in _rules(old, denied)):
            yield Verdict(_WIDENED, "less is denied", f"/spec/{denied}")


def _service(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    if at(new, "spec", "type") in _PUBLIC_TYPES and at(old, "spec", "type") not in _PUBLIC_TYPES:
        yield Verdict(_WIDENED, "reachable from outside the cluster", "/spec/type")
    field = "loadBalancerSourceRanges"
    before, after = items_at(old, "spec", field), items_at(new, "spec", field)
    if before and (not after or not set(map(canonical, after)) <= set(map(canonical, before))):
        yield Verdict(_WIDENED, "more addresses may reach it", f"/spec/{field}")


def _project(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    for field in _PROJECT_LISTS:
        yield from _grown(old, new, ("spec", field), "the project may do more")


def _admission_binding(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    actions = ("spec", "validationActions")
    if "Deny" in items_at(old, *actions) and "Deny" not in items_at(new, *actions):
        yield Verdict(_WIDENED, "what it refused is admitted", "/spec/validationActions")


_JUDGES: dict[str, Callable[[Manifest, Manifest], Iterator[Verdict]]] = {
    **dict.fromkeys(_ROLES, _role),
    **dict.fromkeys(_BINDINGS, _binding),
    **dict.fromkeys(_POLICIES, _network_policy),
    **dict.fromkeys(_CILIUM, _cilium_policy),
    "Service": _service,
    "argoproj.io/AppProject": _project,
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": _admission_binding,
}


def _switches(old: Manifest, new: Manifest) -> Iterator[Verdict]:
    """Settings of a pod that hand it the host or the API, wherever the pod template lies."""
    before = {pointer for pointer, value in pointers.walk(old) if value is True}
    for pointer, value in pointers.walk(new):
        if value is True and pointer not in before and pointer.rpartition("/")[2] in _POD_SWITCHES:
            yield Verdict(_WIDENED, "the pod may do more", pointer)


def _grown(old: Manifest, new: Manifest, path: tuple[str, ...], why: str) -> Iterator[Verdict]:
    known = {canonical(item) for item in items_at(old, *path)}
    if any(canonical(item) not in known for item in items_at(new, *path)):
        yield Verdict(_WIDENED, why, "/" + "/".join(path))


def _types(manifest: Manifest) -> frozenset[str]:
    """What the policy isolates; without policyTypes: Ingress always, Egress if it has such rules."""
    named = at(manifest, "spec", "policyTypes")
    if isinstance(named, list):
        return frozenset(item for item in named if isinstance(item, str))
    return frozenset({"Ingress", "Egress"} if at(manifest, "spec", "egress") else {"Ingress"})


def _rules(manifest: Manifest, field: str) -> list[dict[str, Any]]:
    return _rule_list(at(manifest, "spec", field))


def _rule_list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _wider_rules(old: Manifest, new: Manifest, field: str, narrowing: frozenset[str]) -> Iterator[Verdict]:
    known = _rules(old, field)
    for index, rule in enumerate(_rules(new, field)):
        if not any(_covers(wide, rule, narrowing) for wide in known):
            yield Verdict(_WIDENED, "more may pass", pointers.join(f"/spec/{field}", index))


def _covers(wide: dict[str, Any], rule: dict[str, Any], narrowing: frozenset[str]) -> bool:
    """Whether `rule` lets nothing pass that `wide` does not. An empty list means all, like a missing one."""
    for key in {*wide, *rule}:
        before, after = wide.get(key) or [], rule.get(key) or []
        if canonical(before) == canonical(after) or (not before and key in narrowing):
            continue
        if not (isinstance(before, list) and isinstance(after, list) and before and after):
            return False
        known = set(map(canonical, before))
        if any(canonical(item) not in known for item in after):
            return False
    return True


def _atoms(rule: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(group, resource, verb, name), name "*" for all; a URL path is ("", path, verb, "path")."""
    verbs = items_at(rule, "verbs")
    for group, resource, verb, name in product(
        items_at(rule, "apiGroups") or [""],
        items_at(rule, "resources"),
        verbs,
        items_at(rule, "resourceNames") or ["*"],
    ):
        yield (str(group), str(resource), str(verb), str(name))
    for path, verb in product(items_at(rule, "nonResourceURLs"), verbs):
        yield ("", str(path), str(verb), "path")


def _allows(rule: dict[str, Any], atom: tuple[str, str, str, str]) -> bool:
    return any(all(mine in ("*", theirs) for mine, theirs in zip(known, atom, strict=True)) for known in _atoms(rule))
