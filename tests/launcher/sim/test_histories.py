"""Whole launchers through drawn histories of crashes, faults and troubles; `make faults` runs a million of them."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import pytest

from kubekit import podspec
from paperclip_launcher import manifest, takeover
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.lifecycle import Event, Phase
from paperclip_launcher.manifest import Plan
from paperclip_launcher.neighbours import Alive
from paperclip_launcher.outcome import RunResult
from paperclip_launcher.ownership import AgentLock, LeaseKeeper, Others
from paperclip_launcher.run import WORK, Run
from paperclip_launcher.runlog import RunLog
from paperclip_launcher.skills.pack import Parcel
from tests.launcher.sim import drawing, histories, world
from tests.launcher.sim.host import Disk

_COUNT = int(os.environ.get("PAPERCLIP_HISTORIES") or (20_000 if os.environ.get("CI") else 1_000))
_SHARE = 500
"""Histories of one item, so that two workers share them."""
_ENOUGH = 600
"""Histories in which a launcher that lacks one of its safeguards is found."""

_ONCE_BAD = (
    36347, 42403, 61683, 67249, 80279, 99843, 118970, 149013, 151006, 188778, 236729, 246262, 267131, 306971, 313420,
    313841, 322644, 341722, 357816, 362067, 364935, 460302, 472040, 500670, 503257, 503768, 514723, 536282, 546655,
    552183, 554112, 562145, 564286, 603064, 609301, 655740, 674525, 698444, 749350, 799568, 947907, 959597, 1003400,
    1035069, 1000118622, 1000169160,
)  # fmt: skip
"""Beyond those: each has shown a fault of the launcher, or of what was asked of it."""


@pytest.mark.parametrize("first", range(0, _COUNT, _SHARE))
def test_every_invariant_holds_in_every_history(first):
    assert histories.check(range(first, min(first + _SHARE, _COUNT))) == []


def test_a_history_that_once_showed_a_fault_shows_none():
    assert histories.check(_ONCE_BAD) == []


def test_a_history_is_the_same_every_time():
    def told(seed):
        lines = []
        world.play(drawing.drawn(seed), lines.append)
        return lines

    assert [told(seed) for seed in (3, 14, 60)] == [told(seed) for seed in (3, 14, 60)]


# The invariants can fail: without one of its safeguards a launcher breaks them soon.


async def _won(*_):
    return ""


async def _any(self, resource, name, **more):
    return await _DELETE(self, resource, name, **{**more, "uid": "", "resource_version": ""})


def _says_another(self, record, *, sync=False):
    told = record.result and {**record.result, "summary": "another"}
    _WRITE(self, replace(record, result=told), sync=sync)


async def _unread(run):
    run.result.set_result(RunResult.from_json(run.record.result))
    return Event.ACKNOWLEDGED


async def _left(run):
    run.record.acknowledged = False
    run.keep()
    return Event.CLEARED


def _ownerless(*what):
    made = _SECRET(*what)
    del made["metadata"]["ownerReferences"]
    return made


async def _whole(self):
    await _FINISH(self)
    self.complete = True


async def _unasked(*_): ...


def _of_any_request(self, job):
    """The Secrets of skills, whichever the Job was made for."""
    places = zip(podspec.bundle_secrets(job), self._parcels, strict=False)
    parcels = tuple(Parcel(parcel.data, tuple(source["items"])) for source, parcel in places)
    return _SECRETS(replace(self, _parcels=parcels), job)


_DELETE, _WRITE, _SECRET, _FINISH = Cluster.delete, Disk.write, manifest._secret, RunLog.finish
_SECRETS = Plan.secrets_for
_MUTANTS = {
    "a-lock-for-everybody": (AgentLock, "take", _won, drawing.rivals, "starts while another run of"),
    "every-job-is-ours": (Run, "owns", lambda *_: True, drawing.frozen, "which two owns"),
    "deletes-whatever-has-the-name": (Cluster, "delete", _any, drawing.frozen, "which two owns"),
    "all-others-are-dead": (Others, "alive", lambda *_: Alive.NO, drawing.outlived, "who lives"),
    "remembers-nothing": (Disk, "read", lambda *_: None, drawing.small, "a second container starts"),
    "says-another-result-the-next-time": (Disk, "write", _says_another, drawing.small, "and is now"),
    "hears-no-acknowledgement": (Run, "acknowledge", lambda _: None, drawing.small, "these do not end"),
    "forgets-who-has-its-result": (WORK, Phase.RELEASED, _left, drawing.small, "though its result was read"),
    "clears-away-what-nobody-has-read": (WORK, Phase.STORED, _unread, drawing.small, "nobody has its result"),
    "secrets-that-belong-to-nothing": (manifest, "_secret", _ownerless, drawing.small, "is left"),
    "says-of-each-log-that-it-is-whole": (RunLog, "finish", _whole, drawing.small, "nobody says so"),
    "saw-no-start-so-there-was-none": (Run, "may_have_started", lambda _: False, drawing.unseen, "nothing was started"),
    "has-never-stood-still": (LeaseKeeper, "is_fresh", lambda *_: True, drawing.overtaken, "a second container starts"),
    "stood-still-for-less-than-its-lease": (
        Run,
        "keep_to_lease",
        lambda *_: None,
        drawing.overtaken,
        "a second container",
    ),
    "believes-its-watches": (takeover, "ask_for_owner", _unasked, drawing.revived, "which one owns, who lives"),
    "gives-a-job-the-skills-of-another-request": (
        Plan,
        "secrets_for",
        _of_any_request,
        drawing.skilled,
        "starts with the files",
    ),
    "hears-no-cancel": (Run, "cancel", lambda _: None, drawing.small, "was cancelled, and ends as"),
}


@pytest.mark.parametrize(("owner", "name", "without", "draw", "said"), _MUTANTS.values(), ids=_MUTANTS)
def test_the_invariants_see_a_launcher_without(owner, name, without, draw, said, monkeypatch):
    change = monkeypatch.setitem if isinstance(owner, dict) else monkeypatch.setattr
    change(owner, name, without)
    monkeypatch.setattr(histories, "drawn", lambda seed: draw(seed, Random(seed)))
    found = (histories.of_seed(seed) for seed in range(_ENOUGH))
    assert any(said in problem for problems in found for problem in problems)
