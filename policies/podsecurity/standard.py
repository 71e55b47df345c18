"""The Pod Security Standards as a pure function: which checks a level holds at which version, and what they find.

It is k8s.io/pod-security-admission, policy/registry.go, over again: each check has a list of versions, and a check of
level restricted may stand in for one of baseline. tests/e2e/test_pod_security.py holds it against the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from policies.podsecurity import baseline, restricted
from policies.podsecurity.subject import Judge, Level, Place, Pod, pod_of


class Violation(NamedTuple):
    """What a check finds. `pointer` is a JSON pointer from the pod: "/spec/hostPID", "/metadata/annotations/...".

    Where a field is missing, it leads to the innermost parent that is there.
    """

    check_id: str
    pointer: str
    message: str


@dataclass(frozen=True)
class Check:
    """A check under upstream's name. `versions` are (first minor version, judge), rising.

    `instead_of` names the check of baseline that is left out where this one runs.
    """

    id: str
    level: Level
    versions: tuple[tuple[int, Judge], ...]
    instead_of: str = ""

    def at(self, minor: int) -> Judge | None:
        """What it is at 1.`minor`; None before it began."""
        return next((judge for since, judge in reversed(self.versions) if since <= minor), None)


def _not_on_windows(judge: Judge) -> Judge:
    """Such fields are refused by validation on Windows, so that none can be asked for."""
    return lambda pod: iter(()) if pod.windows else judge(pod)


def _not_in_user_namespaces(judge: Judge) -> Judge:
    """Root in a user namespace is nobody on the node (KEP-127)."""
    return lambda pod: iter(()) if pod.user_namespace else judge(pod)


def _b(name: str, *versions: tuple[int, Judge]) -> Check:
    return Check(name, Level.BASELINE, versions)


def _r(name: str, *versions: tuple[int, Judge], instead_of: str = "") -> Check:
    return Check(name, Level.RESTRICTED, versions, instead_of)


CHECKS: tuple[Check, ...] = (
    _b("appArmorProfile", (0, baseline.app_armor_profile)),
    _b("capabilities_baseline", (0, baseline.capabilities)),
    _b("hostNamespaces", (0, baseline.host_namespaces)),
    _b("hostPathVolumes", (0, baseline.host_path_volumes)),
    _b("hostPorts", (0, baseline.host_ports)),
    _b("hostProbesAndHostLifecycle", (34, baseline.host_probes_and_lifecycle)),
    _b("privileged", (0, baseline.privileged)),
    _b("procMount", (0, baseline.proc_mount), (35, _not_in_user_namespaces(baseline.proc_mount))),
    _b(
        "seLinuxOptions", *((since, baseline.selinux_options(types)) for since, types in baseline.SELINUX_TYPES.items())
    ),
    _b("seccompProfile_baseline", (0, baseline.seccomp_annotations), (19, baseline.seccomp_profile)),
    _b("sysctls", *((since, baseline.sysctls(names)) for since, names in baseline.SYSCTLS.items())),
    _b("windowsHostProcess", (0, baseline.windows_host_process)),
    _r(
        "allowPrivilegeEscalation",
        (8, restricted.allow_privilege_escalation),
        (25, _not_on_windows(restricted.allow_privilege_escalation)),
    ),
    _r(
        "capabilities_restricted",
        (22, restricted.capabilities),
        (25, _not_on_windows(restricted.capabilities)),
        instead_of="capabilities_baseline",
    ),
    _r("procMount_restricted", (35, baseline.proc_mount), instead_of="procMount"),
    _r("restrictedVolumes", (0, restricted.volumes), instead_of="hostPathVolumes"),
    _r(
        "runAsNonRoot",
        (0, restricted.run_as_non_root),
        (35, _not_in_user_namespaces(restricted.run_as_non_root)),
    ),
    _r("runAsUser", (23, restricted.run_as_user), (35, _not_in_user_namespaces(restricted.run_as_user))),
    _r(
        "seccompProfile_restricted",
        (19, restricted.seccomp),
        (25, _not_on_windows(restricted.seccomp)),
        instead_of="seccompProfile_baseline",
    ),
)
"""Every check of both levels."""
NEWEST = max(since for check in CHECKS for since, _ in check.versions)
"""The last minor version that changed anything."""


def violations(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], level: Level, version_minor: int
) -> Iterator[Violation]:
    """What keeps a pod of this metadata and spec out of a namespace that enforces `level` as of 1.`version_minor`."""
    yield from violations_of(pod_of(metadata, spec), level, version_minor)


def violations_of(pod: Pod, level: Level, version_minor: int) -> Iterator[Violation]:
    """The same for a pod that is already seen as its pieces."""
    for check_id, judge in _plan(level, min(version_minor, NEWEST)):
        for place in judge(pod):
            yield Violation(check_id, *place)


@cache
def _plan(level: Level, minor: int) -> tuple[tuple[str, Judge], ...]:
    """The checks that a level runs, with what each is at 1.`minor`."""
    if level is Level.PRIVILEGED:
        return ()
    begun = [
        (check, judge) for check in CHECKS if (judge := check.at(minor)) and level in {check.level, Level.RESTRICTED}
    ]
    replaced = {check.instead_of for check, _ in begun}
    return tuple((check.id, judge) for check, judge in begun if check.id not in replaced)


__all__ = ["CHECKS", "NEWEST", "Check", "Level", "Place", "Pod", "Violation", "pod_of", "violations", "violations_of"]
