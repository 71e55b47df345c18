"""Prints a table of figures and ratios. usage: run.py [--quick]

Every figure is a whole process, best and median of several interleaved runs; memory is the largest resident size of
the process and of its children at one time, read from /proc every 200 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOOR = "import charts_py.kernel.objects as k; k.StackChart(k.App(), 'empty').manifests()"
PROGRAM = [sys.executable, "-m", "charts_py.cli.main"]


def resident(pid: int) -> int:
    """KiB of a process and all below it; shared pages count once for each."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                total += int(line.split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(resident(int(child)) for child in (task / "children").read_text().split())
    except (OSError, ValueError):
        return total
    return total


def run(command: list[str], *, memory: bool = False) -> tuple[float, int]:
    """(seconds, KiB at the peak)"""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while memory and process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.2)
    errors = process.communicate()[1]
    seconds = time.perf_counter() - begun
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}\n{errors.decode()}")
    return seconds, peak


def many(folder: Path, count: int) -> Path:
    """`count` environments of about 50 objects each."""
    text = (ROOT / "environments" / "frank-2026-08.yaml").read_text()
    more = "".join(
        f"    - name: extra-{number}\n      entries: [{{key: KEY_{number}, remote: KEY_{number}}}]\n"
        for number in range(11)
    )
    text = text.replace("    - name: paperclip-auth\n", more + "    - name: paperclip-auth\n", 1)
    configs = folder / f"environments-{count}"
    configs.mkdir()
    for number in range(count):
        name = f"site-{number:03d}"
        (configs / f"{name}.yaml").write_text(text.replace("name: frank-2026-08", f"name: {name}"))
    return configs


def synth(configs: Path, dist: Path, *more: str) -> list[str]:
    return [*PROGRAM, "synth", "--environments", str(configs), "--dist", str(dist), *more]


def row(name: str, seconds: list[float], floor: float | None, note: str = "") -> None:
    middle = statistics.median(seconds)
    ratio = f"{middle / floor:6.2f} x" if floor else "        "
    print(f"{name:<44} {min(seconds) * 1000:9.0f} {middle * 1000:9.0f}   {ratio}  {note}")


def main() -> None:
    rounds = 3 if "--quick" in sys.argv else 11
    os.environ["PAPERCLIP_CRD_SCHEMAS"] = os.environ.get(
        "PAPERCLIP_CRD_SCHEMAS", str(ROOT.parent / "shared" / "schemas")
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = folder / "one"
        one.mkdir()
        (one / "operating-post.yaml").write_text((ROOT / "environments" / "operating-post.yaml").read_text())
        commands = {
            "floor: import cdk8s, empty App": [sys.executable, "-c", FLOOR],
            "one environment, checked and written": synth(one, folder / "dist", "--force"),
            "the same, unchanged": synth(one, folder / "dist"),
        }
        for command in commands.values():
            run(command)
        times: dict[str, list[float]] = {key: [] for key in commands}
        for _ in range(rounds):
            for key, command in commands.items():
                times[key].append(run(command)[0])
        floor = statistics.median(times["floor: import cdk8s, empty App"])
        print(f"{'':<44} {'best ms':>9} {'median':>9}   {'to floor':>8}")
        for key, seconds in times.items():
            row(key, seconds, floor)
        configs = many(folder, 200)
        seconds, peak = run(synth(configs, folder / "many"), memory=True)
        objects = sum(1 for path in (folder / "many").glob("*/paper*/*-*.yaml"))
        objects += sum(1 for path in (folder / "many").glob("*/argocd/*.yaml"))
        row("200 environments", [seconds], floor, f"{objects} objects, {peak / 1024:.0f} MiB at the peak")
        row("the same, unchanged", [run(synth(configs, folder / "many"))[0] for _ in range(3)], floor)


if __name__ == "__main__":
    main()
