"""`serve` before a cluster of its own, in real time: for tests, in this process or as another (python -m ...)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from paperclip_launcher.provision import Stock
from paperclip_launcher.serve.main import serve_on
from paperclip_launcher.serve.options import ServeOptions
from paperclip_launcher.settings import Settings
from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.inprocess import Faults, InProcessTransport
from tests.fakeapi.model import Knobs, Program
from tests.launcher.core.stage import spoken, templates

_SOON = (0.0, 0.002)
# The Secrets come after the Job: a pod that is placed at once would wait for them for two seconds.
FAST = Knobs(control=_SOON, schedule=(0.03, 0.03), start=_SOON, kubelet=_SOON, follow_end=_SOON, collect=_SOON)


def cluster(program: Program | None = None) -> FakeCluster:
    """On the loop that runs."""
    chosen = program or Program(spoken("hello", "done", gap=0.01))
    found = FakeCluster(asyncio.get_running_loop(), program_for=lambda _job: chosen, knobs=FAST)
    found.put("secrets", {"metadata": {"name": "paperclip-agent-keys"}, "data": {"ANTHROPIC_API_KEY": "eA=="}})
    return found


def transport(of: FakeCluster) -> InProcessTransport:
    return InProcessTransport(of, Faults(latency=(0.0, 0.0005)))


def options(folder: Path, **more: Any) -> ServeOptions:
    settings = Settings(templates().namespace, "one")
    given = {
        "access": None,
        "settings": settings,
        "templates": templates(),
        "journal": folder / "runs",
        "stock": Stock(),
    }
    return ServeOptions(**{**given, **more})


async def main(folder: str) -> int:
    found = cluster(Program(spoken("hello", "done", gap=0.01)))
    return await serve_on(options(Path(folder), stdio=True), transport(found))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
