"""How often, how long and under which name a run runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from kubekit import names
from policies.cel import Cel
from policies.jobs.agents import AGENT, agent_pods
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

RUN_ID, AGENT_ID = "paperclip.io/run-id", "paperclip.io/agent-id"
LEAST_TTL = 3600
"""Seconds: a launcher that was away for as long still finds the Job, its pod and its log."""
LONGEST_RUN = 7 * 86400
"""Seconds."""

_JOBS = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_NAMED = r"^run-[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?-[0-9a-f]{16}$"


def _at(field: str, entry: Entry) -> str:
    """The pointer of a field of the Job's spec; the spec itself where it is not written."""
    return f"/spec/{field}" if field in entry.spec else "/spec"


def _shown(value: object) -> str:
    return "not written" if value is None else str(value)[:40]


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


@policy(
    "job-backoff-zero",
    title="A run is not started a second time",
    rationale="An agent has pushed, commented and paid by the time it fails: the default of six more tries does all of "
    "it again.",
    remedy="set backoffLimit: 0 on the Job and restartPolicy: Never in its template",
    kinds=("Job",),
    links=(f"{_JOBS}#pod-backoff-failure-policy",),
    cel=Cel(
        "!variables.agent || (object.spec.?backoffLimit.orValue(6) == 0"
        " && variables.podSpec.?restartPolicy.orValue('Always') == 'Never')",
        variables=AGENT,
    ),
)
def job_backoff_zero(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pod = agent_pods(entry)
    if pod is None:
        return
    limit = entry.spec.get("backoffLimit")
    if limit != 0 or isinstance(limit, bool):
        yield Fault(_at("backoffLimit", entry), f"backoffLimit is {_shown(limit)}, and must be 0 (the default is 6)")
    restart = pod.spec.get("restartPolicy")
    if restart != "Never":
        where = f"{pod.pointer}/restartPolicy" if "restartPolicy" in pod.spec else pod.pointer
        yield Fault(where, f"restartPolicy is {_shown(restart)}, and must be Never")


@policy(
    "job-single-pod",
    title="A run is one pod",
    rationale="Two pods of one run work on the same files at the same time, and the log of one of them is lost.",
    remedy="set parallelism: 1 and completions: 1, or leave them out",
    kinds=("Job",),
    links=(f"{_JOBS}#parallel-jobs",),
    cel=Cel(
        "!variables.agent || (object.spec.?parallelism.orValue(1) == 1 && object.spec.?completions.orValue(1) == 1"
        " && object.spec.?completionMode.orValue('NonIndexed') == 'NonIndexed')",
        variables=AGENT,
    ),
)
def job_single_pod(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if agent_pods(entry) is None:
        return
    for field in ("parallelism", "completions"):
        count = entry.spec.get(field, 1)
        if count != 1 or isinstance(count, bool):
            yield Fault(_at(field, entry), f"{field} is {_shown(count)}, and must be 1")
    mode = entry.spec.get("completionMode", "NonIndexed")
    if mode != "NonIndexed":
        yield Fault("/spec/completionMode", f"completionMode is {_shown(mode)}, and must be NonIndexed")


@policy(
    "job-pod-failure-policy",
    title="A pod that is lost ends its run",
    rationale="A failure that is ignored, or a pod that is replaced while it still stops, starts the agent again: on "
    "the same files, without the launcher's knowing.",
    remedy="set podReplacementPolicy: Failed, and let every rule of podFailurePolicy say FailJob or Count",
    kinds=("Job",),
    links=(f"{_JOBS}#pod-failure-policy", f"{_JOBS}#pod-replacement-policy"),
    since="1.31",
    cel=Cel(
        "!variables.agent || ((has(object.spec.podFailurePolicy)"
        " || object.spec.?podReplacementPolicy.orValue('') == 'Failed')"
        " && object.spec.?podReplacementPolicy.orValue('Failed') == 'Failed'"
        " && object.spec.?podFailurePolicy.?rules.orValue([]).all(r, r.action in ['FailJob', 'Count']))",
        variables=AGENT,
    ),
)
def job_pod_failure_policy(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if agent_pods(entry) is None:
        return
    failure = entry.spec.get("podFailurePolicy")
    # With a failure policy "Failed" is the default, and the only value that is taken.
    replacement = entry.spec.get("podReplacementPolicy", "Failed" if failure is not None else None)
    if replacement != "Failed":
        said = f"podReplacementPolicy is {_shown(replacement)}, and must be Failed"
        yield Fault(_at("podReplacementPolicy", entry), said)
    for index, rule in enumerate(sequence(mapping(failure).get("rules"))):
        action = mapping(rule).get("action")
        if action not in ("FailJob", "Count"):
            where = f"/spec/podFailurePolicy/rules/{index}/action"
            yield Fault(where, f"the action is {_shown(action)}, and must be FailJob or Count")


@policy(
    "job-ttl",
    title="A finished run stays long enough to be read, and then goes",
    rationale="Without a time to live, finished Jobs fill the quota; with a short one, the Job and its log are gone "
    "before a launcher that was restarted, or cut off, has read them.",
    remedy=f"set ttlSecondsAfterFinished to {LEAST_TTL} or more",
    kinds=("Job",),
    links=("https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/",),
    cel=Cel(f"!variables.agent || object.spec.?ttlSecondsAfterFinished.orValue(0) >= {LEAST_TTL}", variables=AGENT),
)
def job_ttl(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if agent_pods(entry) is None:
        return
    seconds = entry.spec.get("ttlSecondsAfterFinished")
    if not _is_number(seconds) or seconds < LEAST_TTL:
        said = f"ttlSecondsAfterFinished is {_shown(seconds)}, and must be {LEAST_TTL} seconds or more"
        yield Fault(_at("ttlSecondsAfterFinished", entry), said)


@policy(
    "job-deadline",
    title="A run ends in any case",
    rationale="An agent that hangs, or a pod that no node takes, holds its place in the quota until someone looks. The "
    "deadline of the Job counts from its start; that of the pod does not begin before it has a node.",
    remedy=f"set activeDeadlineSeconds on the Job, at most {LONGEST_RUN} (a week)",
    kinds=("Job",),
    links=(f"{_JOBS}#job-termination-and-cleanup",),
    cel=Cel(
        "!variables.agent || (object.spec.?activeDeadlineSeconds.orValue(0) >= 1"
        f" && object.spec.?activeDeadlineSeconds.orValue(0) <= {LONGEST_RUN})",
        variables=AGENT,
    ),
)
def job_deadline(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if agent_pods(entry) is None:
        return
    seconds = entry.spec.get("activeDeadlineSeconds")
    if not _is_number(seconds) or not 1 <= seconds <= LONGEST_RUN:
        said = f"activeDeadlineSeconds of the Job is {_shown(seconds)}, and must be 1 to {LONGEST_RUN} seconds"
        yield Fault(_at("activeDeadlineSeconds", entry), said)


@policy(
    "job-name-from-run",
    title="The name of a Job follows from its agent and run",
    rationale="Who creates the same run again is answered 409 and finds the Job that is there; with any other name, "
    "two launchers start one run twice.",
    remedy="name it by kubekit.names.job_name of the ids of agent and run: run-<run>-<hash>",
    kinds=("Job",),
    cel=Cel(
        f"!variables.agent || variables.runId == '' || object.metadata.?name.orValue('').matches('{_NAMED}')",
        variables={**AGENT, "runId": f"variables.annotations[?'{RUN_ID}'].orValue('')"},
        partly="CEL has no SHA-256: it sees the shape of the name only",
    ),
)
def job_name_from_run(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    run, agent = entry.annotations.get(RUN_ID), entry.annotations.get(AGENT_ID)
    if agent_pods(entry) is None or not isinstance(run, str) or not run:
        return
    wanted = names.job_name(agent if isinstance(agent, str) else "", run)
    if entry.id.name != wanted:
        is_now = f'is "{entry.id.name}"' if entry.id.name else "is not written"
        said = f'the name {is_now}, and must be "{wanted}" for the ids in {AGENT_ID} and {RUN_ID}'
        yield Fault("/metadata/name", said)
