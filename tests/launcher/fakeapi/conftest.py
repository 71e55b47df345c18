"""A cluster and a transport on a virtual loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakeapi.cluster import FakeCluster
from tests.fakeapi.inprocess import InProcessTransport
from tests.fakeapi.loop import VirtualLoop

Play = Callable[..., Any]


@pytest.fixture
def play() -> Play:
    """play(history, **of the cluster): runs `history(cluster, transport)` and returns its result."""

    def run(history, *, seed=1, faults=None, **of_cluster):
        loop = VirtualLoop(seed)
        cluster = FakeCluster(loop, seed, **of_cluster)
        transport = (
            InProcessTransport(cluster, seed=seed) if faults is None else InProcessTransport(cluster, faults, seed=seed)
        )
        result = loop.run(history(cluster, transport), limit=100_000)
        assert loop.problems == []
        return result

    return run
