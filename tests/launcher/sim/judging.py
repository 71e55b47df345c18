"""Whether results and logs tell the truth: held against what the nodes really did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paperclip_launcher import marks
from paperclip_launcher.codes import Retry
from tests.fakeapi.inprocess import FINE
from tests.launcher.sim.script import Order
from tests.launcher.sim.wish import Wish

if TYPE_CHECKING:
    from tests.launcher.sim.world import World


def judge(world: World) -> None:
    unread = {wish.own_job for wish in world.wishes.values() if not wish.read or _is_anothers(world, wish)}
    world.watcher.check_end(unread)
    for wish in world.wishes.values():
        if wish.result is not None:
            _check_result(world, wish, wish.result)


def _is_anothers(world: World, wish: Wish) -> bool:
    """Whether a server that had been given up has begun the run anew, since the one that was asked next ended it."""
    job = world.cluster.get("jobs", wish.own_job)
    return bool(wish.holder) and job is not None and marks.annotation(job, marks.OWNER) != wish.holder.rstrip("'")


def _check_result(world: World, wish: Wish, result: Mapping[str, Any]) -> None:
    run, code = wish.order.run, str(result.get("errorCode") or "")
    origin = next((other for other in world.wishes.values() if other.own_job == wish.job), wish)
    ran = world.watcher.started.get(origin.order.run, [])
    known = origin is wish and origin.order.run not in world.watcher.forgotten
    again = result.get("executionRecovery") or (result.get("errorMeta") or {}).get("retry") == Retry.START
    # A second server that asks for it later may start it: this one has said that it can be.
    if again and known and not wish.jobs.isdisjoint(ran):
        world.watcher.wrong(f"{run}: {code} says that nothing was started, and its container was")
    if not code and not ran:
        world.watcher.wrong(f"{run}: success without a container")
    unread = not wish.complete and world.script.faults is not FINE  # the time for its rest may run out
    server = world.script.servers[origin.order.server]
    meant = _meant(origin.order)
    knows = server.twin_at is not None and server.shared and origin.order.program.start == "run"
    stopped_by_another = wish.holder and not knows
    if stopped_by_another or origin.order.run in world.watcher.forgotten:
        meant.add("k8s_job_deleted_externally")  # it does not know why the first server was stopping the run
    if origin.order.skills.changed < float("inf"):
        meant.add("k8s_launch_incomplete")  # what its Job waits for is not had any more
    if code not in meant and not unread and _undisturbed(world, origin) and origin is wish:
        world.watcher.wrong(
            f"{run}: {code or 'success'} in place of {origin.order.code or 'success'}: {result.get('errorMessage')}"
        )


def _undisturbed(world: World, wish: Wish) -> bool:
    order = wish.order
    alone = [other for other in world.wishes.values() if other.order.agent == order.agent] == [wish]
    struck = {one.kind for one in world.script.troubles}
    return (
        alone
        and order.cancel is None
        and not order.timeout
        and order.run not in world.watcher.disturbed
        and not struck & {"refuse-secrets"}
    )


def check_log(world: World, wish: Wish, got: bytes) -> None:
    printed = b"".join(line + b"\n" for line in world.cluster.printed(wish.job))
    run = wish.order.run
    if run in world.watcher.forgotten:
        return
    if not printed.startswith(got):
        at = next((n for n, (a, b) in enumerate(zip(got, printed, strict=False)) if a != b), len(printed))
        world.watcher.wrong(
            f"{run}: the log differs from byte {at} on: {got[at : at + 60]!r} for {printed[at : at + 60]!r}"
        )
    elif wish.complete and got != printed:
        world.watcher.wrong(f"{run}: {len(printed) - len(got)} bytes of the log are missing, and nobody says so")
    elif not wish.complete and world.script.calm and _ends_by_itself(wish.order):
        world.watcher.wrong(f"{run}: the log is said to be incomplete, and nothing stood in the way")


def _ends_by_itself(order: Order) -> bool:
    return order.program.end in ("exit", "oom") and order.cancel is None and not order.timeout


def _meant(order: Order) -> set[str]:
    """What else the same end may be called, by how much the agent had said or the cluster has told."""
    code = order.code
    if order.program.end == "node-lost":
        return {code, "k8s_node_lost", "k8s_pod_evicted"}
    return {code, "claude_init_failed", "claude_truncated"} if code == "agent_exit_nonzero" else {code}
