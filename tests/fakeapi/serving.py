"""The socket server as a program of its own, and how it is asked and steered from outside, under /fake/.

    GET  /fake/stats                   requests by verb and resource, open streams, cuts, memory
    GET  /fake/objects?resource=jobs   what there is
    GET  /fake/printed?job=NAME        what the containers of a Job printed, by line
    POST /fake/rules                   a list of rules, fields as in sockets.Rule
    POST /fake/faults                  fields of faults.Faults; null ends all faults
    POST /fake/restart                 {"seconds": 1.5, "compact": true}
    POST /fake/refuse                  {"seconds": 1.5}
    POST /fake/tokens                  a list of accepted tokens; null accepts all
    POST /fake/put                     {"resource": "secrets", "tree": {...}}
    POST /fake/remove                  {"resource": "pods", "name": "..."}
    POST /fake/program                 what Jobs made from now on do: fields of `Shape`

It prints one line, `listening on http://127.0.0.1:PORT`, and ends on SIGTERM or when its parent is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.faults import FINE, Faults
from tests.fakeapi.model import Knobs, Program
from tests.fakeapi.sockets import Rule, SocketServer


@dataclass(frozen=True)
class Shape:
    """A program that prints numbered lines: `lines` of `size` bytes in bursts of `burst`, one burst `every` seconds.

    `prefix` stands before the number. A Job's annotation `fakeapi/program` with the same fields as JSON wins.
    """

    lines: int = 20
    size: int = 130
    burst: int = 1
    every: float = 0.05
    exit_code: int = 0
    end: str = "exit"
    term_delay: float = 0.05
    prefix: str = "line"

    def program(self) -> Program:
        """The lines are made as they are asked for: a gigabyte needs no gigabyte before it is printed."""
        return Program(_Lines(self), self.exit_code, self.end, term_delay=self.term_delay)


class _Lines(Sequence[tuple[float, bytes]]):
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._fill = b"." * shape.size

    def __len__(self) -> int:
        return self._shape.lines

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        shape = self._shape
        if at >= shape.lines:
            raise IndexError(at)
        text = b"%b %d " % (shape.prefix.encode(), at)
        return (0.0 if at % shape.burst else shape.every), text + self._fill[len(text) :]


class Control:
    """Answers what comes under /fake/."""

    def __init__(self, cluster: FakeCluster, shape: Shape) -> None:
        self._cluster = cluster
        self.shape = shape
        self.server: SocketServer | None = None
        self._started = time.process_time()

    def program_for(self, job: Mapping[str, Any]) -> Program:
        own = (job["metadata"].get("annotations") or {}).get("fakeapi/program")
        return (replace(self.shape, **json.loads(own)) if own else self.shape).program()

    def __call__(self, path: str, query: str, body: bytes) -> Any:
        server, cluster = self.server, self._cluster
        assert server is not None
        asked, tree = dict(parse_qsl(query)), json.loads(body) if body else None
        what = path.removeprefix("/fake/")
        if what == "stats":
            return self._stats(server)
        if what == "objects":
            return cluster.objects(asked["resource"])
        if what == "printed":
            return [base64.b64encode(line).decode() for line in cluster.printed(asked["job"])]
        if what == "rules":
            server.rules += [Rule(**one) for one in tree]
        elif what == "faults":
            server.faults = FINE if tree is None else faults_of(tree)
        elif what == "restart":
            cluster.restart(tree.get("seconds", 0.0), compact=tree.get("compact", False))
        elif what == "refuse":
            server.refuse(tree["seconds"])
        elif what == "tokens":
            server.tokens = None if tree is None else set(tree)
        elif what == "put":
            return cluster.put(tree["resource"], tree["tree"])
        elif what == "remove":
            cluster.remove(tree["resource"], tree["name"])
        elif what == "program":
            self.shape = replace(self.shape, **tree)
        else:
            raise AssertionError(f"no {path}")
        return None

    def _stats(self, server: SocketServer) -> Mapping[str, Any]:
        return {
            "requests": {f"{verb} {name}": count for (verb, name), count in sorted(server.requests.items())},
            "open_streams": server.open_streams,
            "connections": len(server.connections),
            "cuts": server.cuts,
            "cpu_seconds": time.process_time() - self._started,
            "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }


def faults_of(tree: Mapping[str, Any]) -> Faults:
    """From JSON, whose keys are texts and whose pairs are lists."""
    fields = dict(tree)
    for name in ("refused", "stream_refused"):
        if fields.get(name):
            fields[name] = {int(status): chance for status, chance in fields[name].items()}
    for name in ("latency", "lag", "retry_after"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return Faults(**fields)


async def serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    knobs = Knobs(present_secrets=frozenset(options.present_secret))
    cluster = FakeCluster(loop, options.seed, knobs=knobs, epoch=time.time() - loop.time())
    control = Control(cluster, Shape(**json.loads(options.program)))
    cluster.program_for = control.program_for
    server = SocketServer(cluster, faults_of(json.loads(options.faults)), seed=options.seed)
    server.control, control.server = control, server
    sys.stdout.write(f"listening on {await server.start(options.port)}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    parent = os.getppid()
    while not stop.is_set() and os.getppid() == parent:
        try:
            async with asyncio.timeout(1):
                await stop.wait()
        except TimeoutError:
            continue
    await server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakeapi.sockets", description="A fake Kubernetes API server."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--program", default="{}", help="JSON: what containers do; lines, size, burst, every, exit_code, end"
    )
    parser.add_argument("--faults", default="{}", help="JSON: fields of Faults")
    parser.add_argument("--present-secret", action="append", default=[], help="a Secret that is deemed to be there")
    asyncio.run(serve(parser.parse_args(arguments)))
