"""Runs the real kubeconform beside the check in process: a second judge, with the same schemas.

It is given folders of schemas and nothing else. Its "default" location fetches from the net, and its flag for missing
schemas lets it end with 0 where most objects were skipped (measured: 660 of 960), so neither is ever passed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kubekit import yamlwrite
from kubekit.identity import ObjectId
from policies.model import Finding, Severity, Source
from policies.schemas.builtin import builtin_schemas
from policies.schemas.check import POLICY, Coverage, Placed, SchemaReport, absent_schema, kind_name
from policies.schemas.crds import CrdSchemas

NAME = "kubeconform"
_BUILTIN = "{{.NormalizedKubernetesVersion}}-standalone{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json"
_CUSTOM = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
_NO_SCHEMA = "could not find schema for "
# The list "validationErrors" stops at the first $ref; the text goes on to the leaves.
_PLACE = re.compile(r"- at '([^']*)': (.*?)(?=\s+- at '|$)", re.DOTALL)
_UNKNOWN_FIELDS = re.compile(r"additional propert(?:y|ies) (.+) not allowed")


class KubeconformMissing(RuntimeError):
    """The binary is nowhere."""

    remedy = "Run `make tools`, or put kubeconform on PATH."


class KubeconformFailed(RuntimeError):
    """It did not start, did not end in time, or said what is no report."""

    remedy = "Run `make tools` again; if it stays, run the command by hand."


@dataclass(frozen=True)
class Kubeconform:
    """The binary and what it judges by. `timeout` is in seconds; `cache` None is a folder for one run."""

    binary: Path
    kubernetes_version: str
    crds: CrdSchemas
    declared_unchecked: frozenset[str] = frozenset()
    require_all: bool = False
    cache: Path | None = None
    timeout: float = 60.0

    def check_manifests(self, manifests: Sequence[Placed]) -> SchemaReport:
        """Findings over objects in memory; raises KubeconformFailed, UnsupportedVersion, and ValueError
        for what no YAML can hold.

        Each goes through a file of its own: the report names no namespace, and follows the order of threads.
        """
        known = [(ObjectId.of(manifest), source) for manifest, source in manifests]
        kinds = {(identity.api_version, identity.kind) for identity, _ in known}
        with (
            tempfile.TemporaryDirectory(prefix="kubeconform-") as folder,
            self._locations(kinds) as locations,
        ):
            for number, (manifest, _) in enumerate(manifests):
                # Not JSON: Go's YAML reader, which reads it, knows no surrogate pairs (an emoji in JSON).
                Path(folder, f"{number}.yaml").write_text(yamlwrite.dump(manifest), encoding="utf-8")
            resources = self._run([*locations, folder]) if manifests else []
        if len(resources) != len(manifests):
            message = f"kubeconform judged {len(resources)} of {len(manifests)} objects"
            raise KubeconformFailed(message)
        return self._report((*known[int(Path(each["filename"]).stem)], each) for each in resources)

    def check_folder(self, folder: Path, kinds: Collection[tuple[str, str]] | None = None) -> SchemaReport:
        """What is wrong in the YAML files below `folder`; a JSON file is no manifest there (provenance.json).

        `kinds`, as (apiVersion, kind), are those that the folder holds; None prepares the schemas of all.
        """
        with self._locations(kinds) as locations:
            arguments = [*locations, "-ignore-filename-pattern", r"\.json$", str(folder.resolve())]
            resources = self._run(arguments)
        if not resources:
            raise KubeconformFailed(f"kubeconform found no object below {folder}")
        return self._report((*_identify(each), each) for each in resources)

    @contextmanager
    def _locations(self, kinds: Collection[tuple[str, str]] | None) -> Iterator[list[str]]:
        builtin = builtin_schemas(self.kubernetes_version, self.cache)
        with tempfile.TemporaryDirectory(prefix="kubeconform-") as spare:
            root = builtin.root or Path(spare)
            try:
                builtin.folder(root, kinds)
            except OSError as error:
                raise KubeconformFailed(f"the schemas for kubeconform cannot be written: {error}") from error
            places = [
                f"{root.resolve()}/{_BUILTIN}",
                *(f"{p.resolve()}/{_CUSTOM}" for p in self.crds.folders),
            ]
            options = [option for place in places for option in ("-schema-location", place)]
            yield ["-kubernetes-version", f"{builtin.version}.0", *options]

    def _run(self, arguments: Sequence[str]) -> list[dict[str, Any]]:
        command = [str(self.binary), "-strict", "-summary", "-verbose", "-output", "json", *arguments]
        done = _call(command, self.timeout)
        try:
            report = json.loads(done.stdout)
            resources: list[dict[str, Any]] = report["resources"] or []
            total = sum(report["summary"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            said = done.stderr.strip().partition("\n")[0] or f"nothing, exit code {done.returncode}"
            raise KubeconformFailed(f"kubeconform gave no report; it said: {said}") from error
        if total != len(resources) or done.returncode not in (0, 1):
            message = f"kubeconform lists {len(resources)} objects and counts {total}, exit code {done.returncode}"
            raise KubeconformFailed(message)
        return resources

    def _report(self, judged: Iterable[tuple[ObjectId, Source | None, dict[str, Any]]]) -> SchemaReport:
        findings: list[Finding] = []
        checked = 0
        unchecked: Counter[str] = Counter()
        for identity, source, resource in judged:
            status, said = resource["status"], str(resource.get("msg", ""))
            if status == "statusSkipped" or said.startswith(_NO_SCHEMA):
                unchecked[kind_name(identity)] += 1
                findings.extend(self._unjudged(identity, source))
                continue
            checked += 1
            if status != "statusValid":
                findings.extend(_faults(resource, identity, source))
        findings.sort(key=lambda finding: (str(finding.source), str(finding.object), finding.pointer))
        return SchemaReport(tuple(findings), Coverage(checked, dict(sorted(unchecked.items()))))

    def _unjudged(self, identity: ObjectId, source: Source | None) -> Iterator[Finding]:
        if kind_name(identity) in self.declared_unchecked and not self.require_all:
            return
        fault = absent_schema(self.crds, identity, require_all=self.require_all)
        yield Finding(POLICY, Severity.ERROR, identity, "", f"kubeconform: {fault.message}", fault.remedy, source)


def find(binary: Path | None = None, *, root: Path) -> Path:
    """The binary: the one that is named, else `root`/.tools/bin, else PATH; raises KubeconformMissing."""
    if binary is not None:
        if not binary.is_file():
            raise KubeconformMissing(f"there is no kubeconform at {binary}")
        return binary
    ours = root / ".tools" / "bin" / NAME
    if ours.is_file():
        return ours
    path = shutil.which(NAME)
    if path is None:
        raise KubeconformMissing(f"kubeconform is neither in {ours.parent} nor on PATH")
    return Path(path)


def version(binary: Path) -> str:
    """What the binary calls itself, as "v0.7.0"; raises KubeconformFailed."""
    return _call([str(binary), "-v"], 10.0).stdout.strip()


def _call(command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KubeconformFailed(f"kubeconform did not end within {timeout:g} seconds") from error
    except (OSError, UnicodeError) as error:
        raise KubeconformFailed(f"{command[0]} did not run: {error}") from error


def _faults(resource: dict[str, Any], identity: ObjectId, source: Source | None) -> Iterator[Finding]:
    """One finding a place. Its words on values are left out where the object is a Secret."""
    whole = str(resource.get("msg", ""))
    places = [(path, said.strip()) for path, said in _PLACE.findall(whole)]
    leaves = [place for place in places if place[1] != "validation failed"]
    for path, said in leaves or [("", whole)]:
        quiet = identity.kind == "Secret" and not _UNKNOWN_FIELDS.search(said)
        words = "does not fit its schema" if quiet else said
        # A file that is no YAML has no identity.
        named = identity if identity.kind else None
        finding = Finding(POLICY, Severity.ERROR, named, path, f"kubeconform: {words}", source=source)
        yield replace(finding, remedy="Correct the field, or remove it.")


def _identify(resource: dict[str, Any]) -> tuple[ObjectId, Source | None]:
    """What the report says of an object in a folder; it leaves the namespace out."""
    identity = ObjectId(resource["version"], resource["kind"], "", resource["name"])
    return identity, Source(file=str(resource["filename"]))
