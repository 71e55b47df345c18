"""What `check` costs, beside the linters that people know, on the same files. usage: linters.py [--quick]

The linters are installed once, apart from the project: checkov from its wheel, kube-linter and kube-score as Go tools.
One that cannot be had here gets a row that says why, never a figure.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from run import PROGRAM, ROOT, resident

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paperclip-gitops" / "bench"
CHECKOV = "checkov==3.3.30"
GO_TOOLS = {
    "kube-linter": "golang.stackrox.io/kube-linter/cmd/kube-linter@v0.7.6",
    "kube-score": "github.com/zegl/kube-score/cmd/kube-score@v1.20.0",
}
_OF_THE_CLUSTER = (
    *("ciliumload", "ciliuml2", "service-paperclip-lb", "service-paperclip-shell"),
    "validatingadmissionpolic",
)
ALONE = """
import gc, json, sys, time
gc.disable()
from pathlib import Path
from charts_py.manifests import gather
from policies.run import run
from policies.registry import all_policies
from policies.world import World
placed = [one for batch in gather([sys.argv[1]], Path("nowhere")) for one in batch.placed]
all_policies()
seconds = []
for _ in range(5):
    begun = time.perf_counter()
    found = run(World(placed))
    seconds.append(time.perf_counter() - begun)
print(json.dumps([len(placed), len(found), min(seconds), len(all_policies())]))
"""


def objects(folder: Path, count: int) -> Path:
    """One file with `count` objects: copies of the shipped environments, each with namespaces of its own.

    What belongs to the cluster or asks for an address of it is left out, since copies of it would be defects; whole
    environments, filled up with ConfigMaps, so that nothing refers to what was cut off.
    """
    environments = {
        name: [
            path.read_text()
            for path in sorted((ROOT / "dist" / name).glob("paperclip-*/*-*.yaml"))
            if path.name != "configmap-paperclip-job-templates.yaml" and not path.name.startswith(_OF_THE_CLUSTER)
        ]
        for name in ("minimal", "operating-post", "frank-2026-08")
    }
    texts: list[str] = []
    for number in range(count):
        name, own = list(environments.items())[number % 3]
        if len(texts) + len(own) > count:
            break
        system, agents = (f"{name[:2]}{number}-{stack}" for stack in ("system", "agents"))
        texts += [text.replace("paperclip-system", system).replace("paperclip-agents", agents) for text in own]
    for number in range(count - len(texts)):
        metadata = f"metadata:\n  name: fill-{number}\n  namespace: mi0-system\n"
        texts.append(f'apiVersion: v1\nkind: ConfigMap\n{metadata}data:\n  key: "{number}"\n')
    result = folder / f"objects-{count}"
    result.mkdir()
    (result / "all.yaml").write_text("---\n".join(texts))
    return result


def timed(command: list[str]) -> tuple[float, int]:
    """(seconds, KiB at the peak). Findings end a linter with a code of its own, so no code is an error here."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.01)
    return time.perf_counter() - begun, peak


def checkov() -> Path | str:
    """The program, or why there is none."""
    folder = CACHE / CHECKOV
    program = folder / "bin" / "checkov"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        result = subprocess.run(
            [folder / "bin" / "pip", "install", "--quiet", CHECKOV], capture_output=True, text=True, check=False
        )
        if result.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            return result.stderr.strip().splitlines()[-1]
    return program


def go_tool(name: str) -> Path | str:
    """The program, or why there is none."""
    module = GO_TOOLS[name]
    folder = CACHE / module.rpartition("@")[2]
    program = folder / name
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            return "no Go here"
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        result = subprocess.run(
            [go, "install", module], capture_output=True, text=True, check=False, cwd=folder, env=environment
        )
        if result.returncode:
            return "the module cannot be had here: " + result.stderr.strip().rpartition(": ")[2]
    return program


def contenders(file: Path) -> dict[str, list[str] | str]:
    """Each linter's command over `file`, or why it has none. Each with all that it checks by default."""
    found: dict[str, list[str] | str] = {}
    scanner = checkov()
    found["checkov"] = (
        scanner
        if isinstance(scanner, str)
        else [str(scanner), "-f", str(file), "--framework", "kubernetes", "--quiet", "--compact"]
    )
    for name, arguments in (("kube-linter", ["lint"]), ("kube-score", ["score"])):
        tool = go_tool(name)
        found[name] = tool if isinstance(tool, str) else [str(tool), *arguments, str(file)]
    return found


def row(name: str, runs: list[tuple[float, int]], ours: float | None, note: str = "") -> None:
    middle = statistics.median(seconds for seconds, _ in runs)
    ratio = f"{middle / ours:6.2f} x" if ours else ""
    print(f"{name:<44} {middle * 1000:9.0f}   {ratio:>8}  {max(peak for _, peak in runs) / 1024:6.0f}  {note}")


def check(folder: Path, *more: str) -> list[str]:
    return [*PROGRAM, "check", str(folder), "--kubeconform", "off", *more]


def main() -> None:
    rounds = 3 if "--quick" in sys.argv else 7
    os.environ.setdefault("PAPERCLIP_CRD_SCHEMAS", str(ROOT.parent / "shared" / "schemas"))
    print(f"\n{'check':<44} {'median ms':>9}   {'to ours':>8}  {'MiB':>6}")
    row("our own dist/", [timed(check(Path("dist"))) for _ in range(rounds)], None)
    with tempfile.TemporaryDirectory() as name:
        small, large = objects(Path(name), 1000), objects(Path(name), 10_000)
        commands = {"1,000 objects, policies and schemas": check(small)}
        linters = contenders(small / "all.yaml")
        commands |= {f"  the same file: {tool}": one for tool, one in linters.items() if isinstance(one, list)}
        runs: dict[str, list[tuple[float, int]]] = {key: [] for key in commands}
        for _ in range(rounds):
            for key, command in commands.items():
                runs[key].append(timed(command))
        ours = statistics.median(seconds for seconds, _ in next(iter(runs.values())))
        for key, measured in runs.items():
            row(key, measured, ours)
        for tool, why in linters.items():
            if isinstance(why, str):
                print(f"  the same file: {tool:<27} not measured: {why}")
        row("10,000 objects, policies and schemas", [timed(check(large)) for _ in range(3)], ours)
        for folder in (small, large):
            result = subprocess.run(
                [sys.executable, "-c", ALONE, str(folder)], capture_output=True, text=True, check=True, cwd=ROOT
            )
            count, findings, seconds, policies = json.loads(result.stdout)
            note = f"{policies} policies, {findings} findings"
            what = f"{count:,} objects, policies alone, in process"
            print(f"{what:<44} {seconds * 1000:9.0f}   {'':>8}  {'':>6}  {note}")


if __name__ == "__main__":
    main()
