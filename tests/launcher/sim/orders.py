"""Draws runs: what Paperclip wants of each, and what its agent does."""

from __future__ import annotations

import json
from functools import cache
from random import Random

from tests.fakeapi.model import Program
from tests.launcher.sim.script import Cancel, Order, Skills

_ENDS = (
    *[("exit", 0, "")] * 12,
    ("exit", 3, "agent_exit_nonzero"),
    ("exit", 1, "agent_exit_nonzero"),
    ("oom", 0, "k8s_oom_killed"),
    ("evicted", 0, "k8s_pod_evicted"),
    ("preempted", 0, "k8s_pod_evicted"),
)
_STARTS = (*["run"] * 14, "unschedulable", "image-error", "attach-error", "image-invalid")


def order(random: Random, run: str, agent: str, server: int, servers: int, *, slow: float = 0.2) -> Order:
    end, exit_code, code = random.choice(_ENDS)
    start = random.choice(_STARTS)
    if start == "image-invalid":
        code = "k8s_image_invalid"
    seconds = random.uniform(20, 90) if random.random() < slow else random.choice((0.0, 1.0, 4.0)) * random.random()
    lines = spoken(random, random.choice((0, 1, 3, 12)), seconds, whole=code == "")
    program = Program(
        lines,
        exit_code=exit_code,
        end=end,
        end_delay=random.choice((0.0, 0.0, 0.5)),
        start=start,
        start_trouble=random.uniform(0.1, 50),
        term_delay=random.choice((0.0, 0.05, 2.0, 20.0)),
        term_lines=(b"stopped",) if random.random() < 0.3 else (),
        ignore_term=random.random() < 0.05,
        disorder=0.4 if random.random() < 0.1 else 0.0,
    )
    cancel = None
    if random.random() < 0.15:
        cancel = Cancel(random.choice((0.1, 1.0, 10.0)) * random.random(), random.randrange(servers))
    return Order(
        run,
        agent,
        random.choice(("T-1", "T-1", "T-1", "T-2", "")),
        random.choice((0.0, 0.0, 0.5, 5.0)) * random.random(),
        server,
        random.choice(("reattach", "reattach", "reattach", "wait", "fail", "allow")),
        program,
        code,
        cancel,
        timeout=random.choice((0, 0, 0, 0, 0, 5)),
        retain=random.random() < 0.06,
        blind=random.random() < 0.1,
        attach=random.random() < 0.2,
    )


def skills(random: Random) -> Skills:
    """What a run finds beside its prompt; sometimes it changes while the run begins."""
    names = tuple(f"skill-{n}" for n in range(random.choice((1, 1, 2, 3))))
    if random.random() < 0.7:
        return Skills(names)
    later = random.choice(((), names[1:], (*names, "skill-9"), ("skill-8",)))
    return Skills(names, later, random.choice((0.3, 3.0, 30.0)) * random.random())


@cache
def _event(kind: str, text: str = "") -> bytes:
    tree: dict[str, object] = {"type": kind, "session_id": "s-1"}
    if kind == "system":
        tree |= {"subtype": "init", "model": "model-1"}
    elif kind == "assistant":
        tree |= {"message": {"id": f"m-{text}", "content": [{"type": "text", "text": text}]}}
    elif kind == "result":
        tree |= {"subtype": "success", "result": text, "total_cost_usd": 0.02, "usage": {"output_tokens": 20}}
    return json.dumps(tree).encode()


def spoken(random: Random, count: int, seconds: float, *, whole: bool = True) -> tuple[tuple[float, bytes], ...]:
    """What Claude Code writes; bursts among it. Only a `whole` run says its result."""
    lines = [_event("system"), *(_event("assistant", f"line {n}") for n in range(count))]
    if whole:
        lines.append(_event("result", "done"))
    shares = [0.0 if random.random() < 0.3 else random.random() for _ in lines]
    total = sum(shares) or 1.0
    return tuple((seconds * share / total, line) for share, line in zip(shares, lines, strict=True))
