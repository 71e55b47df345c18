"""The launcher on a real API server with a real kubelet: what it costs the server by its audit log, and how fast it is.

usage: python -m bench.launcher_cluster [--quick] [--overhead]        needs root, as the tests on a real node do

With --overhead the launch alone is measured.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.launcher_figures import ROOT, Figure, Phases, Tally, launcher, percentile, request, tell
from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.clock import rfc3339
from paperclip_launcher.cluster.access import Access
from paperclip_launcher.dialects import DIALECTS
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.lifecycle import Phase
from paperclip_launcher.manifest import plan
from paperclip_launcher.metrics import Metrics
from paperclip_launcher.options import RunOptions
from paperclip_launcher.run import Run
from paperclip_launcher.templates import Templates

_READS = frozenset(("get", "list", "watch"))
_NOWHERE = {"bench.example/nowhere": "true"}
_MIB = 1 << 20
_PATIENCE = 300.0
_REST = 0.3


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


async def until(check: Callable[[], object], pause: float = 0.02) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not check():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(pause)


async def end(found: Launcher, run: Run) -> str:
    async with asyncio.timeout(_PATIENCE):
        code = (await run.result).code
        run.acknowledge()
    await until(lambda: run.own_key not in found.runs)
    return code


class Bench:
    """`site` is the ground of the e2e tests: the environment applied, and the kubeconfig of the launcher's account."""

    def __init__(self, site: Any, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.templates = Templates.load(site.templates_folder)

    @asynccontextmanager
    async def launcher(self, identity: str, metrics: Metrics | None = None) -> AsyncIterator[Launcher]:
        journal = FolderJournal(self.folder / identity)
        access = Access.of_kubeconfig(self.site.kubeconfig)
        async with launcher(access, self.templates, identity, journal=journal, metrics=metrics) as found:
            yield found
        await found.cluster.close()

    def calls(self, since: str, until: str = "~") -> Counter[tuple[str, str]]:
        """(verb, resource) of what the launcher's account asked for in that time, as the API server wrote it down."""
        seen: dict[str, tuple[str, str]] = {}
        for line in self.site.cluster.audit_log.read_text().splitlines():
            entry = json.loads(line)
            if "serviceaccount" not in entry["user"]["username"] or "launcher" not in entry.get("userAgent", ""):
                continue
            if since <= entry["requestReceivedTimestamp"] < until:
                about = entry.get("objectRef") or {}
                resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
                if resource == "leases" and not str(about.get("name", "")).startswith("agent-"):
                    resource = "leases of the launcher" if entry["verb"] not in _READS else resource
                seen[entry["auditID"]] = (entry["verb"], resource)
        return Counter(seen.values())

    async def overhead(self, rounds: int) -> None:
        """From the request to the last Secret, against a bare create of the same Job. Its pod finds no node.

        Each on a server that has come to rest: what is cleared away after one would be counted to the next.
        """
        bare, whole, steps = [], [], []
        phases = Phases()
        async with self.launcher("bench-overhead", phases) as found:
            for number in range(rounds + 3):
                await asyncio.sleep(_REST)
                bare.append(await self._bare(found, f"bare-{number}"))
                asked = request(f"whole-{number}", f"agent-{number}", nodeSelector=_NOWHERE)
                await asyncio.sleep(_REST)
                begun = time.perf_counter()
                run = await found.begin(asked, Tally())
                planned = time.perf_counter() - begun
                await until(lambda run=run: run.phase is Phase.STARTING, 0.0005)  # type: ignore[misc]
                whole.append(time.perf_counter() - begun)
                steps.append(planned)
                run.cancel()
                await end(found, run)
        del bare[:3], whole[:3], steps[:3]
        more = [(one - other) * 1000 for one, other in zip(whole, bare, strict=True)]
        tell(
            Figure("launch: over a bare create of the Job, p50", percentile(more, 0.5), "ms", 20),
            Figure("launch: over a bare create of the Job, p95", percentile(more, 0.95), "ms"),
            Figure("launch: the bare create, p50", percentile(bare, 0.5) * 1000, "ms"),
            Figure("launch: planned and judged, p50", percentile(steps, 0.5) * 1000, "ms"),
        )
        for phase, what in (("admitted", "the Job"), ("created", "the agent's lock"), ("locked", "the Secrets")):
            tell(Figure(f"launch: {what}, p50", percentile(phases.spent[phase], 0.5) * 1000, "ms"))

    async def _bare(self, found: Launcher, name: str) -> float:
        asked = request(name, "agent-bare", nodeSelector=_NOWHERE)
        dialect = DIALECTS["claude"]
        options = RunOptions.of(asked.config, dialect)
        job = plan(asked, options, dialect, self.templates, owner="nobody", nonce="0", bundle="").job
        begun = time.perf_counter()
        made: Manifest = await found.cluster.create("jobs", job)
        passed = time.perf_counter() - begun
        await found.cluster.delete("jobs", marks.name(made), uid=marks.uid(made))
        return passed

    async def load_on_the_server(self, runs: int, seconds: int) -> None:
        """What whole runs cost, and what it costs that they go on."""
        begun = rfc3339(time.time(), micro=True)
        prompt = f"@agent ticks {seconds} 1\n"
        async with self.launcher("bench-load") as found:
            ready = rfc3339(time.time(), micro=True)
            all_of = [await found.begin(request(f"load-{one}", f"agent-{one}", prompt), Tally()) for one in range(runs)]
            await until(lambda: all(run.phase is Phase.RUNNING for run in all_of))
            await asyncio.sleep(2)
            first = time.time()
            await asyncio.sleep(seconds - 10)
            last = time.time()
            codes = await asyncio.gather(*(end(found, run) for run in all_of))
            await asyncio.sleep(1)
            over = rfc3339(time.time(), micro=True)
        assert set(codes) == {""}, codes
        steady = self.calls(rfc3339(first, micro=True), rfc3339(last, micro=True))
        reads = sum(count for (verb, _), count in steady.items() if verb in _READS)
        minutes = runs * (last - first) / 60
        whole, before = self.calls(ready, over), self.calls(begun, ready)
        renewals = sum(count for (_, resource), count in whole.items() if resource == "leases of the launcher")
        writes = sum(count for (verb, _), count in whole.items() if verb not in _READS) - renewals
        logs = sum(count for (verb, resource), count in whole.items() if (verb, resource) == ("get", "pods/log"))
        details = ", ".join(f"{verb} {resource} {count}" for (verb, resource), count in sorted(whole.items()))
        tell(
            Figure("API server: reads a run-minute while it runs", reads / minutes, "", 0.1, note=_said(steady)),
            Figure("API server: writes a run", writes / runs, "", 6, note=f"{runs} runs: {details}"),
            Figure("API server: reads of a run's log", logs / runs, ""),
            Figure("API server: renewals a minute, for any number of runs", _a_minute(steady, last - first), ""),
            Figure("API server: calls at the start of a launcher", sum(before.values()), "", note=_said(before)),
        )

    async def log(self, mib: int) -> None:
        """Lines of 1 KiB from a container, through kubelet, API server and TLS."""
        reader = Tally()
        room = {"requests": {"cpu": "500m", "memory": "64Mi", "ephemeral-storage": "2Gi"}}
        room["limits"] = {"cpu": "1", "memory": "128Mi", "ephemeral-storage": "4Gi"}
        async with self.launcher("bench-log") as found:
            asked = request("log", "agent-log", f"@agent lines {mib << 10} 1024\n", resources=room)
            begun = time.perf_counter()
            run = await found.begin(asked, reader)
            code = await end(found, run)
            passed, spent = time.perf_counter() - begun, time.process_time() - reader.first
        assert code == "", code
        size = reader.size / _MIB
        note = f"{size:.0f} MiB in {passed:.1f} s, {spent:.1f} s of them ours"
        tell(Figure("log: a whole run, from a kubelet by TLS", size / spent, "MB/s", 50, least=True, note=note))


def _said(calls: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{verb} {resource} {count}" for (verb, resource), count in sorted(calls.items()))


def _a_minute(calls: Counter[tuple[str, str]], seconds: float) -> float:
    return sum(count for (_, resource), count in calls.items() if resource == "leases of the launcher") / seconds * 60


def e2e_modules() -> None:
    """What the e2e tests stand on: their conftest makes it known by bare names."""
    spec = importlib.util.spec_from_file_location("e2e_conftest", ROOT / "tests/e2e/conftest.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def main() -> None:
    quick = "--quick" in sys.argv
    e2e_modules()
    kubelet, standin, ground = (sys.modules[name] for name in ("kubelet", "standin", "ground"))
    folder = Path(tempfile.mkdtemp(prefix="paperclip-bench-"))
    try:
        busybox = kubelet.parts_folder(say) / "bin/busybox"
        state = folder / "cluster"
        image = standin.build(busybox, sys.modules["controlplane"].tools_folder(), state / "images")
        with kubelet.running(state, [image], say) as cluster:
            bench = Bench(ground.bring_up(cluster, folder), folder)
            asyncio.run(bench.overhead(15 if quick else 60))
            if "--overhead" in sys.argv:
                return
            asyncio.run(bench.load_on_the_server(5 if quick else 10, 30 if quick else 90))
            asyncio.run(bench.log(64 if quick else 512))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
