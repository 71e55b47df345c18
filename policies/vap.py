"""The policies as ValidatingAdmissionPolicies: what they say in CEL, so that the API server itself refuses the rest.

Each policy becomes one ValidatingAdmissionPolicy and one binding. Judged is what people and their tools write, wherever
it belongs to Paperclip, and each thing once:

* What a controller makes of an object that was admitted (the ReplicaSet of a Deployment, the Pods of a Job) is not
  judged again: it may carry what admission added, and a waiver of the Deployment would have to be repeated for it. A
  controller is told by the owner that it writes down *and* by who asks: anybody may write an owner, but only a service
  account from outside Paperclip's namespaces is believed.
* What the cluster does for itself (binding a claim, moving finalizers) and every change of what is being deleted pass:
  refusing them would hold what was there before the policy.
* A waiver is a match condition. It covers its whole object, since CEL does not see the parts of it that `container` and
  `containing` tell apart; a waiver of a Job template covers the Jobs that are made from it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubekit import labels
from kubekit.identity import Manifest
from kubekit.resources import group_of, kinds, resource_of
from policies.cel import COMMON, Cel
from policies.facts import Facts
from policies.model import Policy, Severity
from policies.waivers import Waiver

API_VERSION = "admissionregistration.k8s.io/v1"
SINCE = "1.30"
"""The first minor version that serves it."""
_UNJUDGED = frozenset({"Event", "Lease", "Node", "Endpoints"})
"""What machines write all day; a policy that looks at all kinds does not mean these."""
_OF_V1 = frozenset({"", "apps", "batch", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"})
_MOST_CONDITIONS = 64  # kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
# They change what people wrote: they bind claims, move finalizers and owners, name load balancers.
_CLUSTER = (
    "^system:(apiserver|kube-controller-manager|kube-scheduler|node:.+|serviceaccount:kube-system:(expand-controller"
    "|generic-garbage-collector|namespace-controller|persistent-volume-binder|pv-protection-controller"
    "|pvc-protection-controller|service-controller))$"
)
# Written out, since Argo CD would show them as a difference for ever.
_DEFAULTS: Mapping[str, Any] = {"matchPolicy": "Equivalent", "objectSelector": {}}
_OWNED = "object.metadata.?ownerReferences.orValue([]).exists(one, one.?controller.orValue(false))"
_USER = "request.userInfo.username"


@dataclass(frozen=True)
class Scheme:
    """Where the policies hold and what they do there.

    In the namespaces of `whole` everything is judged; in those of `labelled`, and among the objects of the cluster,
    what is labelled as a part of Paperclip. `actions` are what happens to an error; a warning never denies, and an info
    is only written to the audit log. `prefix` begins every name. `labels` and `annotations` go on every object.
    """

    whole: tuple[str, ...]
    labelled: tuple[str, ...]
    actions: tuple[str, ...] = ("Warn", "Audit")
    prefix: str = "paperclip"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def objects(
    policies: Iterable[Policy], facts: Facts, scheme: Scheme, waivers: Sequence[Waiver] = ()
) -> Iterator[Manifest]:
    """A ValidatingAdmissionPolicy and its binding for every policy that speaks CEL and holds in this cluster."""
    for policy in policies:
        cel = cel_of(policy, facts)
        if cel is not None and facts.reaches(policy.since):
            kinds_ = kinds_of(policy, cel)
            waived = [one for one in waivers if one.policy == policy.id and policy.waivable]
            yield _policy(policy, cel, scheme, list(conditions(kinds_, scheme, waived)))
            yield _binding(policy, cel.severity or policy.severity, scheme)


def cel_of(policy: Policy, facts: Facts) -> Cel | None:
    """What the policy says in CEL; None if it says nothing, or the facts do not suffice."""
    return policy.cel(facts) if callable(policy.cel) else policy.cel


def kinds_of(policy: Policy, cel: Cel) -> tuple[str, ...]:
    """The kinds that are judged, by name. Raises ValueError for one whose resource is not known, and for DELETE."""
    if unknown := set(cel.operations) - {"CREATE", "UPDATE"}:
        raise ValueError(f"{policy.id}: {', '.join(sorted(unknown))}: only what is written is judged")
    found = sorted(cel.kinds or policy.kinds or set(kinds()) - _UNJUDGED)
    for kind in found:
        if resource_of(kind) is None:
            raise ValueError(f"{policy.id}: no resource of kind {kind} is known")
    return tuple(found)


def name_of(policy_id: str, prefix: str = "paperclip") -> str:
    return f"{prefix}-{policy_id}"


def actions_of(severity: Severity, actions: Sequence[str]) -> list[str]:
    """What happens to a finding, in a fixed order: only an error may be denied."""
    if severity is Severity.INFO:
        return ["Audit"]
    if severity is Severity.WARNING:
        actions = ["Warn" if one == "Deny" else one for one in actions]
    return [one for one in ("Deny", "Warn", "Audit") if one in actions]


def reached(cel: Cel) -> tuple[tuple[str, str], ...]:
    """(name, expression) of every variable that the expression needs, each after those that it needs itself.

    Raises ValueError for a variable that does not exist, or needs itself.
    """
    known = {**COMMON, **cel.variables}
    found: dict[str, str] = {}
    for text in (cel.expression, cel.message if is_expression(cel.message) else ""):
        for name in _names(text):
            _reach(name, known, found, ())
    return tuple(found.items())


def is_expression(message: str) -> bool:
    """A message that is CEL itself begins with a quote: 'text' + ..."""
    return message.startswith("'")


def conditions(judged: Sequence[str], scheme: Scheme, waivers: Sequence[Waiver] = ()) -> Iterator[tuple[str, str]]:
    """(name, expression) of each thing that must hold before an object is judged."""
    yield "part-of-paperclip", _ours(scheme)
    yield "not-by-the-cluster", f"!{_USER}.matches({quoted(_CLUSTER)})"
    yield "not-by-a-controller", _not_by_a_controller(scheme)
    yield "not-being-deleted", "!has(object.metadata.deletionTimestamp)"
    texts = [f"!({text})" for text in (_covered(one) for one in waivers if one.object.split("/")[0] in judged)]
    if len(texts) > _MOST_CONDITIONS // 2:
        texts = [" && ".join(texts)]
    yield from ((f"not-waived-{number}", text) for number, text in enumerate(dict.fromkeys(texts), 1))


def _policy(policy: Policy, cel: Cel, scheme: Scheme, match: Sequence[tuple[str, str]]) -> Manifest:
    said = cel.message or f"{policy.title}: {policy.remedy}"
    text = {"messageExpression": said} if is_expression(said) else {"message": " ".join(said.split())}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            **_DEFAULTS,
            "namespaceSelector": {},
            "resourceRules": list(_rules(kinds_of(policy, cel), cel.operations)),
        },
        "matchConditions": [{"name": name, "expression": expression} for name, expression in match],
        "variables": [{"name": name, "expression": expression} for name, expression in reached(cel)],
        "validations": [{"expression": cel.expression, **text, "reason": "Invalid"}],
    }
    if not spec["variables"]:
        del spec["variables"]
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(policy, scheme),
        "spec": spec,
    }


def _binding(policy: Policy, severity: Severity, scheme: Scheme) -> Manifest:
    namespaces = sorted({*scheme.whole, *scheme.labelled})
    within = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(policy, scheme),
        "spec": {
            "policyName": name_of(policy.id, scheme.prefix),
            "validationActions": actions_of(severity, scheme.actions),
            # Objects of the cluster are never skipped by this selector; part-of-paperclip judges them.
            "matchResources": {**_DEFAULTS, "namespaceSelector": {"matchExpressions": [within]}},
        },
    }


def _metadata(policy: Policy, scheme: Scheme) -> dict[str, Any]:
    result: dict[str, Any] = {"name": name_of(policy.id, scheme.prefix), "labels": dict(scheme.labels)}
    if scheme.annotations:
        result["annotations"] = dict(scheme.annotations)
    return result


def _rules(judged: Sequence[str], operations: Sequence[str]) -> Iterator[dict[str, Any]]:
    """One a group. A request in another version is the same object (matchPolicy), so of Kubernetes' own one is enough:
    then the API server checks the expressions against its schema. What versions an operator has is its own business.
    """
    by_group: dict[str, list[str]] = defaultdict(list)
    for kind in judged:
        by_group[group_of(kind) or ""].append(resource_of(kind) or "")
    for group, resources in sorted(by_group.items()):
        yield {
            "apiGroups": [group],
            "apiVersions": ["v1"] if group in _OF_V1 else ["*"],
            "operations": list(operations),
            "resources": sorted(resources),
            "scope": "*",
        }


def _ours(scheme: Scheme) -> str:
    """The old object is asked too: who takes the label off must not get out of the policies with it."""
    mark = f"one.metadata.?labels[?{quoted(labels.PART_OF)}].orValue('') == {quoted(labels.PART_OF_PAPERCLIP)}"
    place = f"request.?namespace.orValue('') in {_listed(scheme.whole)} || " if scheme.whole else ""
    return f"{place}[object, oldObject].exists(one, one != null && {mark})"


def _not_by_a_controller(scheme: Scheme) -> str:
    ours = _listed(f"system:serviceaccount:{name}:" for name in sorted({*scheme.whole, *scheme.labelled}))
    believed = f"{_USER}.startsWith('system:serviceaccount:') && !{ours}.exists(one, {_USER}.startsWith(one))"
    return f"!({_OWNED} && {believed})"


def _covered(waiver: Waiver) -> str:
    kind, *namespace, name = waiver.object.split("/")
    named = f"object.metadata.?name.orValue('') == {quoted(name)}"
    if kind == "Job":
        named = f"({named} || object.metadata.?labels[?{quoted(labels.TEMPLATE)}].orValue('') == {quoted(name)})"
    place = f"request.?namespace.orValue('') == {quoted(''.join(namespace))} && " if namespace else ""
    return f"object.kind == {quoted(kind)} && {place}{named}"


def quoted(text: str) -> str:
    """A literal of CEL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def _reach(name: str, known: Mapping[str, str], found: dict[str, str], path: tuple[str, ...]) -> None:
    if name in found:
        return
    if name in path:
        raise ValueError(f"variables.{name} needs itself: {' -> '.join((*path, name))}")
    if name not in known:
        raise ValueError(f"there is no variables.{name}")
    for other in _names(known[name]):
        _reach(other, known, found, (*path, name))
    found[name] = known[name]


def _names(text: str) -> Iterator[str]:
    return (match[1] for match in _VARIABLE.finditer(text))
