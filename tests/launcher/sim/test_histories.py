"""Whole launchers through drawn histories of crashes, faults and troubles; `make faults` runs a million of them."""

from __future__ import annotations

import os
from random import Random

import pytest

from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.ownership import AgentLock, Others
from paperclip_launcher.run import Run
from tests.launcher.sim import histories, script, world

_COUNT = int(os.environ.get("PAPERCLIP_HISTORIES") or (5_000 if os.environ.get("CI") else 1_000))
_SHARE = 500
"""Histories of one item, so that two workers share them."""
_ENOUGH = 300
"""Histories in which a launcher that lacks one of its safeguards is found."""


@pytest.mark.parametrize("first", range(0, _COUNT, _SHARE))
def test_every_invariant_holds_in_every_history(first):
    assert histories.check(range(first, min(first + _SHARE, _COUNT))) == []


def test_a_history_is_the_same_every_time():
    def told(seed):
        lines = []
        world.play(script.drawn(seed), lines.append)
        return lines

    assert [told(seed) for seed in (3, 14, 60)] == [told(seed) for seed in (3, 14, 60)]


# The invariants can fail: without one of its safeguards a launcher breaks them soon.


async def _won(*_):
    return ""


async def _any(self, resource, name, **more):
    return await _DELETE(self, resource, name, **{**more, "uid": "", "resource_version": ""})


_DELETE = Cluster.delete


@pytest.mark.parametrize(
    ("owner", "name", "without", "draw", "said"),
    [
        pytest.param(AgentLock, "take", _won, script.rivals, "starts while another run of", id="a-lock-for-everybody"),
        pytest.param(Run, "owns", lambda *_: True, script.frozen, "which two owns", id="every-job-is-ours"),
        pytest.param(Cluster, "delete", _any, script.frozen, "which two owns", id="deletes-whatever-has-the-name"),
        pytest.param(Others, "alive", lambda *_: Alive.NO, script.outlived, "who lives", id="all-others-are-dead"),
    ],
)
def test_the_invariants_see_a_launcher_without(owner, name, without, draw, said, monkeypatch):
    monkeypatch.setattr(owner, name, without)
    monkeypatch.setattr(histories, "drawn", lambda seed: draw(seed, Random(seed)))
    found = (histories.of_seed(seed) for seed in range(_ENOUGH))
    assert any(said in problem for problems in found for problem in problems)
