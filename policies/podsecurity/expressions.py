"""The standards in CEL, each expression beside what standard.py says in Python.

The level comes from the namespace of the object, as it does for the API server's own admission; where its labels say
nothing, restricted holds, as it does in Python. Pins to versions before 1.25 are taken for 1.25.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.cel import Cel
from policies.facts import Facts, minor
from policies.podsecurity import baseline, restricted

_LABEL = "namespaceObject.metadata.?labels[?'pod-security.kubernetes.io/{}']"
_PIN = {
    "podSecurityPin": f"{_LABEL.format('enforce-version')}.orValue('latest')",
    "podSecurityMinor": (
        r"variables.podSecurityPin.matches('^v1[.][0-9]{1,4}$') ? int(variables.podSecurityPin.substring(3)) : 10000"
    ),
}
"""Where the server itself is older than the pin, the server's version counts: see `_grown`."""
VARIABLES: dict[str, str] = {
    "podSecurityLevel": f"{_LABEL.format('enforce')}.orValue('restricted')",
    **_PIN,
    "onWindows": "variables.podSpec.?os.?name.orValue('') == 'windows'",
    "userNamespace": "!variables.podSpec.?hostUsers.orValue(true)",
}
_NOT_JUDGED = "variables.podSecurityLevel == 'privileged'"
_NOT_RESTRICTED = "variables.podSecurityLevel in ['privileged', 'baseline']"


def at_baseline(expression: str) -> Cel:
    """Holds in every namespace that is not privileged."""
    return _cel(f"{_NOT_JUDGED} || ({expression})")


def at_restricted(expression: str) -> Cel:
    """Holds in namespaces that are restricted, or say nothing."""
    return _cel(f"{_NOT_RESTRICTED} || ({expression})")


def _cel(expression: str) -> Cel:
    """With those variables that it reaches; each stands after those that it needs itself."""
    text, reached = expression, set()
    for name in reversed(VARIABLES):
        if f"variables.{name}" in text:
            reached.add(name)
            text += VARIABLES[name]
    return Cel(expression, variables={name: VARIABLES[name] for name in VARIABLES if name in reached})


def _texts(values: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(one) for one in values)}]"


def _both(pod: str, container: str) -> str:
    """An expression over `s`, the security context of the pod and of each container, all of them optional."""
    return f"({pod}) && variables.containers.all(c, {container})"


def _setters(expression: str) -> str:
    """`expression` over SECURITY for the pod and for each container."""
    pod = expression.replace("SECURITY", "variables.podSpec.?securityContext")
    return _both(pod, expression.replace("SECURITY", "c.?securityContext"))


def _grown(known: Mapping[int, tuple[str, ...]], value: str, facts: Facts) -> str:
    """Whether `value` is in the list that the version of the namespace knows, or the server's if that is older."""
    server = minor(facts.kubernetes_version)
    before: tuple[str, ...] = ()
    parts = []
    for since, values in known.items():
        new = tuple(one for one in values if one not in before)
        before = values
        if since <= server:
            asked = f"variables.podSecurityMinor >= {since} && " if since else ""
            parts.append(f"({asked}{value} in {_texts(new)})")
    return " || ".join(parts)


def _in_user_namespace(facts: Facts) -> str:
    """From 1.35 on a user namespace makes root harmless."""
    known = minor(facts.kubernetes_version) >= 35
    return "(variables.podSecurityMinor >= 35 && variables.userNamespace)" if known else "false"


PRIVILEGED = at_baseline("variables.containers.all(c, !c.?securityContext.?privileged.orValue(false))")
HOST_NAMESPACES = at_baseline(
    " && ".join(f"!variables.podSpec.?{flag}.orValue(false)" for flag in baseline.HOST_FLAGS),
)
HOST_PATH = at_baseline("variables.volumes.all(v, !has(v.hostPath))")
HOST_PORTS = at_baseline(
    "variables.podSpec.?hostNetwork.orValue(false)"
    " || variables.containers.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
)
_ADDS = "c.?securityContext.?capabilities.?add.orValue([])"
# What restricted takes, baseline takes too.
CAPABILITIES = at_baseline(
    "variables.onWindows || variables.containers.all(c, 'ALL' in c.?securityContext.?capabilities.?drop.orValue([])"
    f" && {_ADDS}.all(a, a == 'NET_BIND_SERVICE'))"
    f" || ({_NOT_RESTRICTED} && variables.containers.all(c, {_ADDS}.all(a, a in {_texts(baseline.CAPABILITIES)})))",
)
PRIVILEGE_ESCALATION = at_restricted(
    "variables.onWindows || variables.containers.all(c, !c.?securityContext.?allowPrivilegeEscalation.orValue(true))",
)
_PROFILES = _texts(baseline.PROFILES)
_SECCOMP = _setters(f"SECURITY.?seccompProfile.?type.orValue('RuntimeDefault') in {_PROFILES}")
SECCOMP = at_baseline(
    f"(!({_NOT_RESTRICTED}) && variables.onWindows) || ({_SECCOMP} && ({_NOT_RESTRICTED}"
    " || variables.podSpec.?securityContext.?seccompProfile.hasValue()"
    " || variables.containers.all(c, c.?securityContext.?seccompProfile.hasValue())))",
)
# A hostPath is refused by a policy of its own.
VOLUME_TYPES = at_restricted(
    f"variables.volumes.all(v, {' || '.join(f'has(v.{kind})' for kind in (*restricted.VOLUMES, 'hostPath'))})",
)


def run_as_non_root(facts: Facts) -> Cel:
    pod = "variables.podSpec.?securityContext.?runAsNonRoot"
    own = f"c.?securityContext.?runAsNonRoot.orValue({pod}.orValue(false))"
    return at_restricted(f"{_in_user_namespace(facts)} || ({_both(f'{pod}.orValue(true)', own)})")


def run_as_user(facts: Facts) -> Cel:
    return at_restricted(f"{_in_user_namespace(facts)} || ({_setters('SECURITY.?runAsUser.orValue(1) != 0')})")


def kernel_knobs(facts: Facts) -> Cel:
    """procMount, sysctls, SELinux, AppArmor and hostProcess in one."""
    selinux = _grown(baseline.SELINUX_TYPES, "SECURITY.?seLinuxOptions.?type.orValue('container_t')", facts)
    sysctl = _grown(baseline.SYSCTLS, "s.name", facts)
    value = "variables.podMeta.annotations[k]"
    confined = f"{value} in ['', 'runtime/default'] || {value}.startsWith('localhost/')"
    annotation = f"!k.startsWith('{baseline.APPARMOR_ANNOTATION}') || {confined}"
    proc_mount = "variables.containers.all(c, c.?securityContext.?procMount.orValue('Default') == 'Default')"
    parts = (
        f"(variables.podSecurityLevel == 'baseline' && {_in_user_namespace(facts)}) || {proc_mount}",
        f"variables.podSpec.?securityContext.?sysctls.orValue([]).all(s, {sysctl})",
        _setters(f"SECURITY.?seLinuxOptions.?type.orValue('') == '' || {selinux}"),
        _setters(
            "SECURITY.?seLinuxOptions.?user.orValue('') == '' && SECURITY.?seLinuxOptions.?role.orValue('') == ''"
        ),
        _setters(f"SECURITY.?appArmorProfile.?type.orValue('RuntimeDefault') in {_PROFILES}"),
        f"variables.podMeta.?annotations.orValue({{}}).all(k, {annotation})",
        _setters("!SECURITY.?windowsOptions.?hostProcess.orValue(false)"),
    )
    return at_baseline(" && ".join(f"({part})" for part in parts))
