"""Labels of agent runs: by them a restarted launcher finds its Jobs again."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels, names, pointers
from policies.cel import Cel
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World

_PREFIX = "paperclip.io/"
_RUN, _AGENT = f"{_PREFIX}run-id", f"{_PREFIX}agent-id"
_IDENTITIES = (_RUN, _AGENT, f"{_PREFIX}company-id", f"{_PREFIX}task-id", f"{_PREFIX}session-id")
_AGENT_JOB = " && ".join(
    f"variables.labels[?'{key}'].orValue('') == '{value}'" for key, value in labels.AGENT_JOB.items()
)
_AGENT_POD = _AGENT_JOB.replace("variables.labels", "variables.podLabels")
_AGENT_RUN = f"({_AGENT_JOB}) || ({_AGENT_POD})"
_LISTED = "[" + ", ".join(f"'{key}'" for key in _IDENTITIES) + "]"


def _runs_agent(entry: Entry) -> bool:
    """The Job of one agent run; either of its label maps may say so, since the other may be what is wrong."""
    wanted = labels.AGENT_JOB.items()
    maps = (entry.labels, entry.pod.labels if entry.pod else {})
    return any(all(found.get(key) == value for key, value in wanted) for found in maps)


@policy(
    "run-labels",
    title="An agent's Job and its pods carry the labels of the run",
    rationale=(
        "A restarted launcher finds the run again by these labels: without them the Job runs on with nobody to read"
        " it, and the run is started a second time."
    ),
    remedy="set paperclip.io/run-id and paperclip.io/agent-id, and the same labels on the Job and on its pod template",
    waivable=False,
    kinds=("Job",),
    links=("https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/",),
    cel=Cel(
        "!variables.agentRun || (['" + _RUN + "', '" + _AGENT + "'].all(k, variables.labels[?k].orValue('') != '')"
        f" && {_LISTED}.all(k, variables.labels[?k].orValue('') == variables.podLabels[?k].orValue('')))",
        variables={"agentRun": _AGENT_RUN},
        message="an agent's Job and its pods carry the same paperclip.io/run-id and agent-id, and equal other labels",
    ),
)
def run_labels(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not _runs_agent(entry):
        return
    place = "/spec/template/metadata/labels"
    for key in _IDENTITIES:
        own, found = entry.labels.get(key), entry.pod.labels.get(key)
        if not own and (found or key in (_RUN, _AGENT)):
            yield Fault("/metadata/labels", f"the label {key} is missing on the Job, and must name the run's own")
        elif own != found and not (not own and not found):
            where = pointers.join(place, key) if found is not None else place
            said = f"is {found!r}" if found is not None else "is missing"
            yield Fault(where, f"the label {key} {said} on the pods, and must be {own!r} as on the Job")


@policy(
    "run-label-injective",
    title="Two runs never share a label",
    rationale=(
        "An id that is no legal label must be shortened, and without a hash of the whole id `a/b` and `ab` become"
        " one: the launcher would take another run's Job for its own."
    ),
    remedy=(
        "keep the full id in the annotation of the same name; the label is that id where it is a legal label, else its"
        " words with 16 hex digits of its SHA-256 (kubekit.names.label_value)"
    ),
    waivable=False,
    kinds=("Job",),
    links=("https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set",),
    cel=Cel(
        f"!variables.agentRun || ('{_RUN}' in variables.annotations && {_LISTED}.all(k,"
        " variables.labels[?k].orValue('') == '' || !(k in variables.annotations)"
        " || variables.labels[k].matches('-[0-9a-f]{16}$') || variables.labels[k] == variables.annotations[k]))",
        variables={"agentRun": _AGENT_RUN},
        message="the label of a run is the raw id of the annotation of the same name, or its short form with a hash",
        partly="whether the hash in a shortened label is that of the id",
    ),
)
def run_label_injective(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not _runs_agent(entry):
        return
    for key in _IDENTITIES:
        label, full = entry.labels.get(key), entry.annotations.get(key)
        if not isinstance(label, str) or not label:
            continue  # run-labels says so
        if not isinstance(full, str):
            if key == _RUN:
                yield Fault("/metadata/annotations", f"the annotation {key} is missing, and must hold the full id")
        elif label != names.label_value(full):
            yield Fault(
                pointers.join("/metadata/labels", key),
                f"the label {key} is {label!r}, and must be the id in the annotation {key}, shortened with its hash"
                " where the id is no legal label",
            )
