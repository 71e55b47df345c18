"""How many of the planted defects each linter sees. usage: planted.py

Every defect of tests/policies/planted is one set of manifests: a shipped environment with one thing wrong. A linter has
found it if it says anything that it does not say of the same environment without the defect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from linters import checkov, go_tool

from kubekit import yamlread, yamlwrite
from kubekit.identity import Manifest
from policies.schemas.check import check
from policies.schemas.crds import CrdSchemas
from tests.support import planted

Words = frozenset[tuple[str, str]]


def of_checkov(program: Path, file: Path) -> Words:
    command = [program, "-f", file, "--framework", "kubernetes", "--quiet", "--compact", "-o", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = json.loads(result.stdout).get("results", {}).get("failed_checks", [])
    return frozenset((one["check_id"], one["resource"]) for one in failed)


def of_kube_score(program: Path, file: Path) -> Words:
    result = subprocess.run([program, "score", "-o", "ci", file], capture_output=True, text=True, check=False)
    bad = (line for line in result.stdout.splitlines() if not line.startswith("[OK]"))
    return frozenset((line, "") for line in bad)


def of_kube_linter(program: Path, file: Path) -> Words:
    result = subprocess.run([program, "lint", "--format", "json", file], capture_output=True, text=True, check=False)
    reports = json.loads(result.stdout).get("Reports") or []
    return frozenset((one["Check"], json.dumps(one["Object"]["K8sObject"], sort_keys=True)) for one in reports)


def of_schemas(folder: Path, file: Path) -> Words:
    """Strict schemas as kubeconform applies them: tests/policies/test_schema_agreement.py holds both together."""
    documents = yamlread.read_all(file.read_bytes(), str(file), max_bytes=16 << 20, max_depth=100)
    report = check(
        [(one.value, None) for one in documents],
        kubernetes_version="1.35",
        crds=CrdSchemas((folder,)),
        declared_unchecked=frozenset(),
        require_all=False,
        cache=None,
    )
    return frozenset((str(one.object), one.message) for one in report.findings)


def written(folder: Path, name: str, objects: Iterable[Manifest]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text("---\n".join(yamlwrite.dump(one) for one in objects))
    return path


def count(judge: Callable[[Path], Words], folder: Path) -> tuple[int, int]:
    """(found, all)"""

    @cache
    def clean(environment: str) -> Words:
        return judge(written(folder, f"clean-{environment}", planted.clean(environment)[0]))

    first = {one.name: one for one in reversed(list(planted.all_planted()))}

    def seen(item: tuple[int, planted.Planted]) -> bool:
        number, defect = item
        return bool(judge(written(folder, f"defect-{number}", defect.objects)) - clean(defect.environment))

    for environment in planted.ENVIRONMENTS:
        clean(environment)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(seen, enumerate(first.values()))), len(first)


def main() -> None:
    os.environ.setdefault("PAPERCLIP_CRD_SCHEMAS", str(Path(__file__).parents[2] / "shared" / "schemas"))
    print("\nplanted defects found, of one at a time (ours: tests/policies/test_planted.py)")
    linters: dict[str, tuple[Path | str, Callable[[Path, Path], Words]]] = {
        "checkov": (checkov(), of_checkov),
        "kube-score": (go_tool("kube-score"), of_kube_score),
        "kube-linter": (go_tool("kube-linter"), of_kube_linter),
        "strict schemas": (Path(os.environ["PAPERCLIP_CRD_SCHEMAS"]), of_schemas),
    }
    for name, (program, judge) in linters.items():
        if isinstance(program, str):
            print(f"{name:<15} not measured: {program}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            found, everything = count(lambda file, j=judge, p=program: j(p, file), Path(folder))
        print(f"{name:<15} {found} of {everything}")


if __name__ == "__main__":
    main()
