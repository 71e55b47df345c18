"""The labels of a namespace that switch pod admission on."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels, pointers
from policies.cel import Cel
from policies.model import Fault, Severity
from policies.podsecurity.levels import ENFORCE, VERSION
from policies.podsecurity.subject import Level, shown
from policies.registry import policy
from policies.world import Entry, World, mapping

_MODES = ("enforce", "audit", "warn")
_LEVELS = tuple(level.value for level in Level)
_AGENTS = "agents"
_LABELS = "object.metadata.?labels[?'{}']"


def _expression() -> str:
    """Ours: levels that rise from enforce on, each pinned. Others: a level at all, of those that exist."""
    level = {mode: f"{_LABELS.format(f'{labels.POD_SECURITY}/{mode}')}.orValue('')" for mode in _MODES}
    pin = {mode: f"{_LABELS.format(f'{labels.POD_SECURITY}/{mode}-version')}.orValue('')" for mode in _MODES}
    ours = f"{_LABELS.format(labels.PART_OF)}.orValue('') == '{labels.PART_OF_PAPERCLIP}'"
    agents = f"{_LABELS.format(labels.COMPONENT)}.orValue('') == '{_AGENTS}'"
    pinned = " && ".join(f"{pin[mode]}.matches('^v1[.]([0-9]|[1-9][0-9]{{1,3}})$')" for mode in _MODES)
    rising = " && ".join(
        f"({level[mode]} == 'restricted' || ({level[mode]} == 'baseline' && {level['enforce']} == 'baseline'))"
        for mode in ("audit", "warn")
    )
    legal = " && ".join(f"{level[mode]} in {['', *_LEVELS]}" for mode in ("audit", "warn"))
    free = " && ".join(
        f"({pin[mode]} in ['', 'latest'] || {pin[mode]}.matches('^v1[.][0-9]{{1,4}}$'))" for mode in _MODES
    )
    return (
        f"({ours} && {level['enforce']} in (({agents}) ? ['restricted'] : ['baseline', 'restricted'])"
        f" && {rising} && {pinned})"
        f" || (!({ours}) && {level['enforce']} in {[*_LEVELS]} && {legal} && {free})"
    )


@policy(
    "pss-namespace-labels",
    title="A namespace says which pods it takes",
    rationale="Without its labels a namespace takes every pod, a privileged one too. A level that is not pinned to a "
    "version changes with the next upgrade of the cluster, which may then refuse the pods of today.",
    remedy=f"set {labels.POD_SECURITY}/enforce, /audit and /warn with a -version of v1.MINOR each",
    kinds=("Namespace",),
    links=(
        "https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces",
        "https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-namespace-labels/",
    ),
    cel=Cel(_expression()),
)
def pss_namespace_labels(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP:
        yield from _ours(entry)
    else:
        yield from _others(entry)


def _ours(entry: Entry) -> Iterator[Fault]:
    """The server's image starts as root, so its namespace can be no more than baseline; what agents run cannot."""
    agents = entry.labels.get(labels.COMPONENT) == _AGENTS
    least = Level.RESTRICTED if agents else Level.BASELINE
    enforced = entry.labels.get(ENFORCE)
    for mode in _MODES:
        key, value = f"{labels.POD_SECURITY}/{mode}", entry.labels.get(f"{labels.POD_SECURITY}/{mode}")
        floor = Level.RESTRICTED if mode != "enforce" and enforced == Level.RESTRICTED else least
        wanted = [level for level in (Level.BASELINE, Level.RESTRICTED) if floor in {level, Level.BASELINE}]
        if value not in wanted:
            yield Fault(_place(entry, key), f"label {key} must be {' or '.join(wanted)} (is {shown(value)})")
        pin = entry.labels.get(f"{key}-version")
        if not isinstance(pin, str) or not VERSION.fullmatch(pin):
            message = f"label {key}-version must pin a version such as v1.35 (is {shown(pin)})"
            yield Fault(_place(entry, f"{key}-version"), message)


def _others(entry: Entry) -> Iterator[Fault]:
    """Theirs to choose; but the API server refuses a value that does not exist."""
    if ENFORCE not in entry.labels:
        message = f"label {ENFORCE} must name a level: {', '.join(_LEVELS)} (is unset, so every pod is taken)"
        yield Fault(_place(entry, ENFORCE), message, Severity.WARNING)
    for mode in _MODES:
        key = f"{labels.POD_SECURITY}/{mode}"
        value, pin = entry.labels.get(key), entry.labels.get(f"{key}-version")
        if value is not None and value not in _LEVELS:
            yield Fault(_place(entry, key), f"label {key} must be one of {', '.join(_LEVELS)} (is {shown(value)})")
        if pin is not None and pin != "latest" and not (isinstance(pin, str) and VERSION.fullmatch(pin)):
            message = f"label {key}-version must be latest or such as v1.35 (is {shown(pin)})"
            yield Fault(_place(entry, f"{key}-version"), message)


def _place(entry: Entry, label: str) -> str:
    """The label, or the nearest thing that is there."""
    if label in entry.labels:
        return pointers.join("/metadata/labels", label)
    return "/metadata/labels" if "labels" in mapping(entry.manifest.get("metadata")) else "/metadata"
