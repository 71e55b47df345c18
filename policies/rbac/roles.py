"""What no Role may grant."""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel import Cel
from policies.model import Fault
from policies.rbac.grants import ROLES, Rule, rules_of
from policies.registry import policy
from policies.world import Entry, World

_RULES = "object.?rules.orValue([])"

_ALWAYS_READS = ("list", "watch", "deletecollection")
"""They answer with the Secrets whatever resourceNames say, or in spite of them."""
_READS_ONE = ("get", "patch")
"""They answer with the one Secret that is asked for; an empty patch changes nothing and shows all."""

_RAISING = ("bind", "escalate")
_IMPERSONATE = "impersonate"
_WRITES = ("create", "update", "patch", "delete", "deletecollection", "*")
# Whoever may use these in any way can run commands where he may not otherwise.
_ALWAYS = {
    ("", "pods/exec"): "runs commands in every pod",
    ("", "pods/attach"): "talks to the process of every pod",
    ("", "pods/portforward"): "reaches every port of every pod, past all network policies",
    ("", "nodes/proxy"): "runs commands in every pod of the node, past admission and audit",
}
_WHEN_WRITTEN = {
    ("", "pods/ephemeralcontainers"): "puts a container of any image into a running pod",
    ("", "serviceaccounts/token"): "makes itself a token of any account",
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): "can switch admission off",
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): "can change every object that is created",
    ("certificates.k8s.io", "certificatesigningrequests/approval"): "can approve a certificate for any user",
}


@policy(
    "rbac-no-wildcard",
    title="No Role grants everything",
    rationale=(
        "`*` also grants what is installed next year: new verbs, new resources of operators, and all subresources such"
        " as exec and token."
    ),
    remedy="list the API groups, resources and verbs that are used",
    kinds=ROLES,
    waivable=False,
    links=("https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege",),
    cel=Cel(
        expression=(
            f"{_RULES}.all(r, !r.verbs.exists(x, x.contains('*'))"
            " && !r.?apiGroups.orValue([]).exists(x, x.contains('*'))"
            " && !r.?resources.orValue([]).exists(x, x.contains('*'))"
            " && !r.?nonResourceURLs.orValue([]).exists(x, x in ['*', '/*']))"
        )
    ),
)
def rbac_no_wildcard(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for rule in rules_of(entry):
        fields = (("apiGroups", rule.groups), ("resources", rule.resources), ("verbs", rule.verbs))
        for field, values in fields:
            for index, value in enumerate(values):
                if "*" in value:
                    message = f"{field} holds {value!r}, which grants more than is listed, and must name each"
                    yield Fault(f"{rule.pointer}/{field}/{index}", message)
        for index, value in enumerate(rule.urls):
            if value in ("*", "/*"):
                message = f"nonResourceURLs holds {value!r}, which is every path, and must name each"
                yield Fault(f"{rule.pointer}/nonResourceURLs/{index}", message)


@policy(
    "rbac-secrets-named",
    title="A Role reads no Secret that it does not name",
    rationale=(
        "Whoever reads every Secret of a namespace has every right of every account and service in it; a pod's"
        " secretKeyRef needs no right at all, since the kubelet reads for it."
    ),
    remedy="grant `get` with resourceNames, and neither list nor watch; most programs need none of them",
    kinds=ROLES,
    links=(
        "https://kubernetes.io/docs/concepts/security/rbac-good-practices/#listing-secrets",
        "https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources",
    ),
    cel=Cel(
        expression=(
            f"{_RULES}.all(r, !('secrets' in r.?resources.orValue([])"
            " && r.?apiGroups.orValue([]).exists(g, g in ['', '*'])"
            f" && (r.verbs.exists(v, v in {[*_ALWAYS_READS, '*']})"
            f" || (r.verbs.exists(v, v in {[*_READS_ONE]}) && r.?resourceNames.orValue([]).size() == 0))))"
        )
    ),
)
def rbac_secrets_named(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for rule in rules_of(entry):
        if "secrets" not in rule.resources or not {"", "*"}.intersection(rule.groups):
            continue
        for verb in rule.verbs:
            if verb in _ALWAYS_READS or verb == "*":
                yield Fault(
                    rule.pointer, f"{verb!r} on secrets shows all of them; a Role must `get` those that it names"
                )
            elif verb in _READS_ONE and not rule.names:
                yield Fault(rule.pointer, f"{verb!r} on secrets shows any of them; it must be limited by resourceNames")


@policy(
    "rbac-no-escalation",
    title="No Role leads to more than it says",
    rationale=(
        "To bind, escalate or impersonate, to run commands in pods and to rewrite admission are ways to every other"
        " right, so such a Role grants far more than a reader sees in it."
    ),
    remedy="take the verb or the resource out; people who need it use an account of their own",
    kinds=ROLES,
    links=(
        "https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks",
        "https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping",
    ),
    cel=Cel(
        expression=(
            f"{_RULES}.all(r, !r.verbs.exists(v, v in {[*_RAISING]} || v.startsWith('{_IMPERSONATE}'))"
            f" && !r.?resources.orValue([]).exists(x, (r.?apiGroups.orValue([]).exists(g, g in variables.always[?x]"
            ".orValue([])) && r.verbs.size() > 0) || (r.?apiGroups.orValue([]).exists(g, g in variables.written[?x]"
            f".orValue([])) && r.verbs.exists(v, v in {[*_WRITES]}))))"
        ),
        variables={
            "always": "{" + ", ".join(f"'{x}': ['{g}', '*']" for g, x in _ALWAYS) + "}",
            "written": "{" + ", ".join(f"'{x}': ['{g}', '*']" for g, x in _WHEN_WRITTEN) + "}",
        },
    ),
)
def rbac_no_escalation(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for rule in rules_of(entry):
        for verb in rule.verbs:
            if verb in _RAISING or verb.startswith(_IMPERSONATE):
                yield Fault(rule.pointer, f"{verb!r} leads to the rights of others, and must not be granted")
        for resource, what in _dangerous(rule):
            yield Fault(rule.pointer, f"who may use {resource!r} {what}; it must not be granted")


def _dangerous(rule: Rule) -> Iterator[tuple[str, str]]:
    """(resource, what it leads to); wildcards of resources are rbac-no-wildcard's."""
    writes = bool(set(_WRITES).intersection(rule.verbs))
    for table, applies in ((_ALWAYS, bool(rule.verbs)), (_WHEN_WRITTEN, writes)):
        for (group, resource), what in table.items():
            if applies and resource in rule.resources and {group, "*"}.intersection(rule.groups):
                yield resource, what
