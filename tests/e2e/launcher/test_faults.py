"""What breaks around a run on a real node: launcher, API server, kubelet. The run goes on, its log stays whole."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import pytest

from paperclip_launcher.journal import FolderJournal

controlplane, driving = sys.modules["controlplane"], sys.modules["driving"]

pytestmark = pytest.mark.e2e

_NUMBER = re.compile(r"^line (\d+) ", re.MULTILINE)
_TICKS = 80
_PROMPT = f"@agent ticks {_TICKS} 0.2\n"


def _numbers(*texts: str) -> list[int]:
    return [int(one) for text in texts for one in _NUMBER.findall(text)]


def _run_through(site: Any, name: str, *faults: tuple[str, str]) -> Any:
    """A run during which the components of the cluster suffer what is said, one after the other."""

    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            run = await found.begin(driving.request(name, _PROMPT), reader)
            await driving.until("some lines", lambda: len(_numbers(reader.text)) > 5)
            for action, component in faults:
                await asyncio.to_thread(site.cluster.fault, action, component)
                await asyncio.sleep(2)
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader

    return asyncio.run(through())


def test_a_launcher_that_leaves_is_followed_by_one_that_misses_nothing(site, tmp_path):
    async def through() -> Any:
        first, second = driving.Reader(), driving.Reader()
        journal = FolderJournal(tmp_path / "journal")
        async with driving.launcher(site, journal=journal) as found:
            await found.begin(driving.request("handed-on", _PROMPT), first)
            await driving.until("some lines", lambda: len(_numbers(first.text)) > 5)
        second.offset = first.size
        async with driving.launcher(site, journal=journal) as found:
            result = await driving.ended(await found.attach("handed-on", second))
            await driving.settled(found)
        return result, first, second

    result, first, second = asyncio.run(through())
    assert result.ok, f"{result} {second}"
    assert _numbers(first.text, second.text) == list(range(1, _TICKS + 1))


def test_another_launcher_without_the_journal_reads_all_of_it_again(site):
    async def through() -> Any:
        first, second = driving.Reader(), driving.Reader()
        async with driving.launcher(site, "one") as found:
            await found.begin(driving.request("adopted", _PROMPT), first)
            await driving.until("some lines", lambda: len(_numbers(first.text)) > 5)
        async with driving.launcher(site, "two") as found:
            result = await driving.ended(await found.attach("adopted", second))
            await driving.settled(found)
        return result, second

    result, second = asyncio.run(through())
    assert result.ok, f"{result} {second}"
    assert result.session_id
    assert _numbers(second.text) == list(range(1, _TICKS + 1))


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([("restart", "kube-apiserver")], id="the-api-server-starts-anew"),
        pytest.param([("kill", "kubelet"), ("start", "kubelet")], id="the-kubelet-is-killed"),
        pytest.param([("kill", "kube-controller-manager"), ("start", "kube-controller-manager")], id="no-controllers"),
        pytest.param([("pause", "kube-apiserver"), ("resume", "kube-apiserver")], id="the-api-server-hangs"),
    ],
)
def test_no_line_is_lost_doubled_or_moved_while(site, faults):
    result, reader = _run_through(site, "through-faults", *faults)
    assert result.ok, f"{result} {reader}"
    assert _numbers(reader.text) == list(range(1, _TICKS + 1))
    # The next test wants all of the cluster.
    controlplane.wait_until("the node", 60, lambda: _ready(site))


def test_a_log_that_is_rotated_while_it_is_read_stays_whole(site):
    bursts, lines, width = 6, 15_000, 1024
    prompt = "".join(f"@agent lines {lines} {width} {1 + one * lines}\n@agent sleep 4\n" for one in range(bursts))
    roomy = {"limits": {"cpu": "2", "memory": "128Mi", "ephemeral-storage": "2Gi"}}

    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            run = await found.begin(driving.request("rotated", prompt, resources=roomy), reader)
            await driving.until("the log to be rotated", site.cluster.rotated_logs)
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader

    with site.cluster.log_limit("10Mi"):
        result, reader = asyncio.run(through())
    assert result.ok, f"{result} {reader}"
    assert (reader.numbered, reader.unlike) == (bursts * lines, b"")


def _ready(site: Any) -> bool:
    ready = 'jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status}'
    return bool(site.cluster.kubectl("get", "nodes", "-o", ready).out == "True")


def test_a_job_that_somebody_deletes_is_told_as_that(site):
    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            run = await found.begin(driving.request("deleted", _PROMPT), reader)
            await driving.until("some lines", lambda: len(_numbers(reader.text)) > 5)
            job = site.objects("jobs")[0]["metadata"]["name"]
            await asyncio.to_thread(site.cluster.must, "delete", "job", job, "-n", site.agents, "--wait=false")
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader

    result, reader = asyncio.run(through())
    assert result.code == "k8s_job_deleted_externally", f"{result} {reader}"
