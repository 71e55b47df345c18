"""What can befall a pod: each has an outcome of its own, with a remedy, within seconds of its status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakeapi.model import Program, Refusal
from tests.faults.place import DONE, INIT, Place, Reader, quick, request, soon
from tests.faults.table import Figure, at_most, exactly

_OWN = "agent_exit_nonzero"
"""What only the agent can mend."""
_RAN = ((0.5, INIT), (0.5, b"x"))
_SAID = (*_RAN, (0.1, DONE))


@dataclass(frozen=True)
class Fate:
    """`soft`: it may mend itself, so that first the reader is told, and the run goes on for a while."""

    name: str
    program: Program
    code: str
    soft: bool = False


FATES = (
    Fate("image cannot be pulled", Program(start="image-error"), "k8s_image_pull_failed", soft=True),
    Fate("image name is wrong", Program(start="image-invalid"), "k8s_image_invalid"),
    Fate("image is not on the node and may not be pulled", Program(start="image-never"), "k8s_image_invalid"),
    Fate("no node takes it", Program(start="unschedulable"), "k8s_unschedulable", soft=True),
    Fate("a volume cannot be attached", Program(start="attach-error"), "k8s_volume_failed", soft=True),
    Fate("the runtime cannot start it", Program(start="start-error"), "k8s_container_start_failed"),
    Fate("out of memory", Program(_RAN, end="oom"), "k8s_oom_killed"),
    Fate("evicted", Program(_RAN, end="evicted"), "k8s_pod_evicted"),
    Fate("preempted", Program(_RAN, end="preempted"), "k8s_pod_evicted"),
    Fate("node lost", Program(_RAN, end="node-lost"), "k8s_node_lost", soft=True),
    Fate("exit 3", Program(_SAID, exit_code=3), _OWN),
)


@dataclass
class Seen:
    """`told` is how long after the cluster knew the trouble the reader heard of it, or had the result."""

    code: str
    remedy: str
    told: float
    pods: int


async def _play(fate: Fate, seed: int) -> Seen:
    async with Place(fate.program, seed=seed, knobs=soon(deleted_node_pods_vanish=60.0)) as place:
        async with place.launcher() as launcher:
            reader = Reader()
            run = await launcher.begin(request(), reader)
            result = await run.result
            ended = asyncio.get_running_loop().time()
        changes = place.cluster.store.changes
        knew = [one.time for one in changes if _is_trouble(one.item.key[0], one.item.obj)]
        pods = len(place.made("pods"))
    warned = reader.times("warning")
    since = min(knew, default=0.0)
    heard = min((at for at in warned if at >= since), default=ended) if fate.soft else ended
    return Seen(result.code, str((result.error_meta or {}).get("remedy") or ""), heard - since, pods)


def _is_trouble(resource: str, obj: Mapping[str, Any]) -> bool:
    """Whether the cluster says here that something is wrong with the run, or that it has ended."""
    status = obj.get("status") or {}
    if resource == "events":
        return obj["reason"] != "FailedMount" or "attach" in obj["message"].lower()
    if resource != "pods":
        return False
    [container] = status.get("containerStatuses") or [{}]
    state = container.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason", "ContainerCreating")
    conditions = {(one["type"], one["status"]) for one in status.get("conditions") or ()}
    bad = {("PodScheduled", "False"), ("DisruptionTarget", "True")} & conditions
    not_ready = ("Ready", "False") in conditions and "running" in state
    return bool("terminated" in state or bad or not_ready or waiting not in ("ContainerCreating", "PodInitializing"))


def play(fate: Fate, seed: int = 1, speed: float = 60.0) -> Seen:
    return quick(_play(fate, seed), speed)


async def _refused_pods(message: str) -> str:
    async with Place() as place:
        place.cluster.knobs.admit = lambda resource, _: (
            Refusal(403, "Forbidden", message) if resource == "pods" else None
        )
        async with place.launcher() as launcher:
            run = await launcher.begin(request(), Reader())
            return (await run.result).code


REFUSALS = {
    'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true': "k8s_pod_security_refused",
    'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi': "k8s_limit_range_refused",
    'admission webhook "validate.kyverno.svc-fail" denied the request: no': "k8s_admission_refused",
}


def refused_pods(message: str, speed: float = 60.0) -> str:
    return quick(_refused_pods(message), speed)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "pods"
    worst = 0.0
    for fate in FATES:
        seen = play(fate, seed, 20.0 if not fate.soft else 60.0)
        worst = max(worst, seen.told)
        found = (seen.code, bool(seen.remedy), seen.pods)
        yield exactly(name, f"{fate.name}: code, remedy, pods", found, (fate.code, fate.code != _OWN, 1))
    yield at_most(name, "told after the status, at most", worst, 5.0, "s")
    for message, code in REFUSALS.items():
        yield exactly(name, f"pod refused: {message[:40]}...", refused_pods(message), code)
