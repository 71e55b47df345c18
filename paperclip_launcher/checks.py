"""Whether runs can be had here: for the verb `check`, and for the Test button of Paperclip.

Nothing is kept of it in the cluster: rights are asked for, objects are read or created as a dry run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kubekit import podspec, quantity
from kubekit.calls import LAUNCHER_CALLS, Call
from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.causes.cause import tidy
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.cluster.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unauthorized
from paperclip_launcher.diagnose import refusal
from paperclip_launcher.errors import LauncherError

if TYPE_CHECKING:
    from paperclip_launcher.cluster.api import Cluster
    from paperclip_launcher.templates import Templates

Level = Literal["info", "warn", "error"]

_ROLE = "apply the launcher's Role and RoleBinding of the environment again"
_MANIFESTS = "apply the rendered manifests of the environment"
# Without these a run still runs; only less can be said of it.
_FOR_PEOPLE = frozenset({"events", "resourcequotas", "limitranges"})
_AT_ONCE = 6
_SECONDS = 10.0
"""For which one call of a check is tried again: somebody waits for it."""


@dataclass(frozen=True, slots=True)
class Check:
    """`code` is stable. An error means that runs will fail, a warning that some may; `hint` says what to do."""

    code: str
    level: Level
    message: str
    detail: str = ""
    hint: str = ""


async def run_checks(
    cluster: Cluster,
    templates: Templates | None,
    *,
    probe: Manifest | None = None,
    problems: Sequence[str] = (),
    waived: Collection[tuple[str, str]] = (),
) -> list[Check]:
    """All checks in a fixed order; none of them raises. Where the API server does not answer, no other is tried.

    `probe` is a Job as a run would make it, under a name of its own; `problems` are what kept templates or probe from
    being made, `waived` what policies say of its template anyway (judging.of_template). Without `templates` nothing is
    said of what they name.
    """
    server = await _server(cluster)
    if server.level == "error":
        return [*_templates(cluster, templates, problems), server]
    named = _Named.of(templates, probe)
    rules = await _rules(cluster)
    return [
        server,
        await _namespace(cluster),
        *_templates(cluster, templates, problems),
        *await _rights(cluster),
        *[await _claim(cluster, name) for name in sorted(named.claims)],
        *_secrets(named),
        *_room(rules),
        *(_policies(templates, probe, rules, waived) if templates is not None and probe is not None else ()),
        *([await _dry_run(cluster, probe)] if probe is not None else []),
    ]


def to_environment_report(checks: Sequence[Check], adapter_type: str, now: float) -> dict[str, Any]:
    """The answer to testEnvironment in the real server's shape; `now` in seconds since 1970."""
    levels = {one.level for one in checks}
    status = "fail" if "error" in levels else "warn" if "warn" in levels else "pass"
    return {
        "adapterType": adapter_type,
        "status": status,
        "checks": [_plain(one) for one in checks],
        "testedAt": rfc3339(now),
    }


def _plain(check: Check) -> dict[str, str]:
    extra = {key: value for key, value in (("detail", check.detail), ("hint", check.hint)) if value}
    return {"code": check.code, "level": check.level, "message": check.message, **extra}


@dataclass(slots=True)
class _Named:
    """What must be there for a run, by the pods of the templates or of the probe. `secrets`: name to keys."""

    claims: set[str] = field(default_factory=set)
    secrets: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, templates: Templates | None, probe: Manifest | None) -> _Named:
        named = cls()
        jobs = [probe] if probe else []
        jobs += [json.loads(one.job.job) for one in templates.by_name.values()] if templates is not None else []
        for job in jobs:
            named._take(podspec.pod_spec(job) or {})
        return named

    def _take(self, pod: Mapping[str, Any]) -> None:
        for volume in pod.get("volumes") or ():
            if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                self.claims.add(claim)
        for pull in pod.get("imagePullSecrets") or ():
            self.secrets.setdefault(pull["name"], set()).add(".dockerconfigjson")
        for name, key in _keys(pod):
            self.secrets.setdefault(name, set()).add(key)


def _keys(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys of Secrets that variables are taken from and that must be there; a placeholder is no variable yet."""
    for container in pod.get("containers") or ():
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {} if isinstance(variable, Mapping) else {}
            ref = source.get("secretKeyRef") or {}
            if ref and not ref.get("optional"):
                yield str(ref["name"]), str(ref["key"])


async def _server(cluster: Cluster) -> Check:
    try:
        version = await cluster.version()
    except Forbidden:
        # Not everybody may ask for the version; but it has answered, and knows us.
        version = ""
    except LauncherError as error:
        hint = error.remedy or "check the address, the certificate and the network on the way"
        code = "k8s_api_unauthorized" if isinstance(error, Unauthorized) else "k8s_api_unreachable"
        return Check(code, "error", "The Kubernetes API cannot be used", tidy(error), hint)
    return Check("k8s_api_reachable", "info", f"The Kubernetes API answers: {version or 'version not known'}")


async def _namespace(cluster: Cluster) -> Check:
    """By the dry run of a Lease: reading the namespace itself takes a right of the whole cluster."""
    name = "paperclip-launcher-check"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": marks.labels(marks.LAUNCHER)},
        "spec": {"holderIdentity": name},
    }
    found = Check("k8s_namespace_exists", "info", f"The namespace {cluster.namespace} takes Leases of the launcher")
    try:
        await cluster.dry_create("leases", lease, retry_seconds=_SECONDS)
    except AlreadyExists:
        return found
    except NotFound as error:
        text = f"The namespace {cluster.namespace} does not exist"
        return Check("k8s_namespace_missing", "error", text, tidy(error), _MANIFESTS)
    except ApiError as error:
        text = f"The launcher cannot create its Lease in {cluster.namespace}, so it cannot own a run"
        return Check("k8s_lease_refused", "error", text, tidy(error), refusal(error.message).remedy)
    except LauncherError as error:
        text = f"The namespace {cluster.namespace} could not be checked"
        return Check("k8s_namespace_check_failed", "warn", text, tidy(error), error.remedy)
    return found


def _templates(cluster: Cluster, templates: Templates | None, problems: Sequence[str]) -> Iterator[Check]:
    for one in problems:
        yield Check("k8s_template_invalid", "error", "No run can be made from what is configured", tidy(one))
    if templates is None:
        return
    names = ", ".join(sorted(templates.by_name))
    yield Check("k8s_templates_readable", "info", f"Job templates: {names}", templates.source)
    if templates.namespace != cluster.namespace:
        text = f"The Job templates are for {templates.namespace}, and the launcher works in {cluster.namespace}"
        yield Check("k8s_namespace_mismatch", "error", text, hint="use the templates of this environment")


async def _rights(cluster: Cluster) -> list[Check]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(call: Call, verb: str) -> bool:
        resource, _, subresource = call.resource.partition("/")
        async with gate:
            return await cluster.allowed(verb, call.group, resource, subresource)

    async def judge(call: Call) -> Check:
        code = f"k8s_rbac_{call.resource.replace('/', '_')}"
        try:
            answers = await asyncio.gather(*(ask(call, verb) for verb in call.verbs))
        except LauncherError as error:
            text = f"Whether the launcher may use {call.resource} could not be asked"
            return Check(code, "warn", text, tidy(error), "SelfSubjectAccessReview must be allowed to everybody")
        missing = [verb for verb, allowed in zip(call.verbs, answers, strict=True) if not allowed]
        if not missing:
            return Check(code, "info", f"May {', '.join(call.verbs)} {call.resource}")
        level: Level = "warn" if call.resource in _FOR_PEOPLE else "error"
        text = f"May not {', '.join(missing)} {call.resource} in {cluster.namespace}"
        return Check(code, level, text, f"needed for: {call.reason}", _ROLE)

    return list(await asyncio.gather(*(judge(call) for call in LAUNCHER_CALLS)))


async def _claim(cluster: Cluster, name: str) -> Check:
    try:
        claim = await cluster.get("persistentvolumeclaims", name, retry_seconds=_SECONDS)
    except NotFound:
        return Check("k8s_pvc_missing", "error", f"The claim {name} does not exist", hint=_MANIFESTS)
    except LauncherError as error:
        return Check("k8s_pvc_check_failed", "warn", f"The claim {name} could not be read", tidy(error), error.remedy)
    phase = str((claim.get("status") or {}).get("phase") or "")
    modes = (claim.get("status") or {}).get("accessModes") or (claim.get("spec") or {}).get("accessModes") or []
    detail = f"{phase or 'no phase'}, {', '.join(modes) or 'no access mode'}"
    if marks.deleting(claim) or phase == "Lost":
        text = f"The claim {name} is {'being deleted' if marks.deleting(claim) else 'lost'}"
        return Check("k8s_pvc_lost", "error", text, detail, "save its data and create it again")
    if "ReadWriteMany" not in modes:
        # Of ReadWriteOncePod only one pod at a time may run, and every other run waits for it.
        level: Level = "error" if modes == ["ReadWriteOncePod"] else "warn"
        text = f"The claim {name} cannot be used on several nodes at once"
        return Check("k8s_pvc_not_rwx", level, text, detail, "use a claim of ReadWriteMany, or one node for all agents")
    if phase != "Bound":
        hint = "a storage class that waits for the first pod is well; else look at the claim's events"
        return Check("k8s_pvc_not_bound", "warn", f"The claim {name} has no volume yet", detail, hint)
    return Check("k8s_pvc_rwx", "info", f"The claim {name} is bound, and usable on every node", detail)


def _secrets(named: _Named) -> Iterator[Check]:
    """The launcher may read no Secret, so their names are all that can be said."""
    for name, keys in sorted(named.secrets.items()):
        text = f"Runs need the Secret {name} with {', '.join(sorted(keys))}"
        yield Check("k8s_secret_named", "info", text, "not looked at: the launcher may not read Secrets")


async def _rules(cluster: Cluster) -> list[Manifest]:
    """What decides on admission in the namespace; what may not be read is left out, and `_rights` says so."""
    found: list[Manifest] = []
    for resource, kind in (("resourcequotas", "ResourceQuota"), ("limitranges", "LimitRange")):
        try:
            items, _ = await cluster.list(resource, retry_seconds=_SECONDS)
        except LauncherError:
            continue
        found += [{"apiVersion": "v1", **one, "kind": kind} for one in items]
    return found


def _room(rules: Sequence[Manifest]) -> Iterator[Check]:
    for rule in rules:
        status = rule.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        full = [key for key in sorted(hard) if key in used and _reached(used[key], hard[key])]
        if full:
            detail = ", ".join(f"{key}: {used[key]} of {hard[key]}" for key in full)
            text = f"The quota {marks.name(rule)} is used up, so new runs wait"
            yield Check("k8s_quota_full", "warn", text, detail, "wait until runs end, or raise it")


def _reached(used: Any, hard: Any) -> bool:
    try:
        return quantity.compare(used, hard) >= 0 and quantity.parse(hard) > 0
    except quantity.QuantityError:
        return False


def _policies(
    templates: Templates, probe: Manifest, rules: Sequence[Manifest], waived: Collection[tuple[str, str]]
) -> Iterator[Check]:
    # Reading the registry of policies takes longer than all else that a check imports.
    from policies.launch import judge_job  # noqa: PLC0415

    findings = [one for one in judge_job(probe, templates.facts, rules) if (one.policy, one.message) not in waived]
    for one in findings:
        level: Level = "error" if one.stops else "warn"
        yield Check("k8s_policy_refused", level, f"{one.policy}: {one.message}", one.pointer, one.remedy)
    if not findings:
        yield Check("k8s_policies_passed", "info", "A sample Job passes every policy and fits the namespace")


async def _dry_run(cluster: Cluster, probe: Manifest) -> Check:
    """Admission of the Job alone: of its pod the API server says nothing before there is one, and policies do."""
    passed = Check("k8s_dry_run_passed", "info", "The API server would take a sample Job")
    try:
        await cluster.dry_create("jobs", probe, retry_seconds=_SECONDS)
    except AlreadyExists:
        return passed
    except ApiError as error:
        found = refusal(error.message)
        text = f"The API server would refuse a sample Job. {found.summary}"
        return Check(found.code, "error" if found.hard else "warn", text, found.detail, found.remedy)
    except LauncherError as error:
        return Check("k8s_dry_run_failed", "warn", "A sample Job could not be tried", tidy(error), error.remedy)
    return passed
