"""Secrets that can be told wherever they turn up: the canaries of a seed, by the place that each is put into.

Each holds 32 letters and digits that are drawn, its core. A hit is any 16 of them in a row, in either case, or 26
characters of their base64 in any alignment, anywhere but in a Secret: escapes and URLs leave a core as it is.
"""

from __future__ import annotations

import base64
import gc
import json
import random
import string
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paperclip_launcher.cluster.errors import ApiError
from tests.fakeapi.model import Program
from tests.fakeapi.sockets import Rule
from tests.faults.place import DONE, INIT, Place, event

_LETTERS = string.ascii_lowercase + string.digits
_WINDOW, _WINDOW64 = 12, 20
PLACES = {
    # By what a launcher knows to be secret, so that it is masked even where the agent says it.
    "authToken": "{}",
    "env": "{}",
    "env, quoted": 'it\'s "{}" \\ <&> ü🧵',
    "env, several lines": "-----BEGIN THING-----\n{}\n-----END THING-----\n",
    "env, password in a URL": "postgres://ada:{}@db/x?sslmode=off",
    "env, base64": "e30{}==",
    "inheritEnv": "{}",
    "mcpServers env": "{}",
    "mcpServers headers": "Basic {}",
    # By what is told apart by its looks, though nobody told the launcher.
    "sk-ant": "sk-ant-api03-{}",
    "github": "ghp_{}",
    "bearer": "Bearer 7{}",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJ{}.c2ln",
    # By nobody: the agent gets these, and keeps them to itself here.
    "promptTemplate": "do {} now",
    "bootstrapPromptTemplate": "{}",
    "task": "# Task {}",
    "wake": "{}",
    "preRunCommand": "export X={}",
    "mcpServers args": "--token={}",
    "mcpServers url": "https://mcp.example.com/?key={}",
    "instructions": "Never tell {}",
    # What the launcher's own process has and the agent must not get, not even in a Secret.
    "kubeconfig token": "{}",
    "launcher's environment": "{}",
}
BY_LOOKS = ("sk-ant", "github", "bearer", "jwt")
TOLD = (*tuple(PLACES)[: tuple(PLACES).index(BY_LOOKS[0])], *BY_LOOKS)
"""What the agent tells, and the launcher masks."""


@dataclass
class Cage:
    """The canaries of a seed: `value` by place, and where they were heard."""

    seed: int
    values: dict[str, str] = field(default_factory=dict)
    searched: int = 0
    """Bytes."""
    outputs: set[str] = field(default_factory=set)
    hits: dict[str, bytes] = field(default_factory=dict)
    """With what stands around each."""

    def __post_init__(self) -> None:
        rng = random.Random(f"canaries {self.seed}")
        self._seen: set[int] = set()
        self._needles: dict[bytes, str] = {}
        self._needles64: dict[bytes, str] = {}
        for place, shape in PLACES.items():
            core = "".join(rng.choice(_LETTERS) for _ in range(32))
            self.values[place] = shape.format(core)
            for at in range(0, len(core) - _WINDOW + 1, 5):
                self._needles[core[at : at + _WINDOW].encode()] = place
            for before, skip in ((0, 0), (1, 2), (2, 3)):
                coded = base64.b64encode(b"\0" * before + core.encode())[skip : (before + len(core)) * 8 // 6]
                for at in range(0, len(coded) - _WINDOW64 + 1, 7):
                    self._needles64[coded[at : at + _WINDOW64]] = place

    def search(self, output: str, data: bytes | str) -> None:
        """`output` says what was searched."""
        raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        self.outputs.add(output)
        if hash(raw) in self._seen:
            return
        self._seen.add(hash(raw))
        self.searched += len(raw)
        for needles, where in ((self._needles, raw.lower()), (self._needles64, raw)):
            for needle, place in needles.items():
                if (at := where.find(needle)) >= 0:
                    self.hits.setdefault(f"{place} in {output}", raw[max(0, at - 80) : at + 80])

    def search_tree(self, output: str, tree: Any) -> None:
        self.search(output, json.dumps(tree, ensure_ascii=False, default=repr))

    def search_folder(self, output: str, folder: Path, *, without: Iterable[str] = ()) -> None:
        """All files below it, and their names."""
        for path in folder.rglob("*"):
            self.search(f"{output}, names", str(path.relative_to(folder)))
            if path.is_file() and path.name not in without:
                self.search(f"{output}/{path.name.partition('-')[0]}", path.read_bytes())

    def search_cluster(self, place: Place) -> None:
        """All versions of all objects that ever were, but for Secrets; and all calls."""
        for change in place.cluster.store.changes:
            resource = change.item.key[0]
            self.search_tree("names of objects", change.item.key)
            if resource != "secrets":
                # One by one, since most of them stay as they were.
                for key, part in change.item.obj.items():
                    self.search_tree(f"{resource} of the cluster", {key: _without_last_words(part)})
        for item in place.cluster.store.shelf("secrets", place.cluster.store.changes[0].item.key[1]).values():
            self.search_tree("metadata of Secrets", item.obj["metadata"])
        self.search_tree("calls", place.cluster.trail)

    def search_objects(self, output: str) -> None:
        """The repr of every object of the launcher that is alive in this process; errors of the API server aside, whose
        words are masked wherever they are shown.
        """
        found = defaultdict(set)
        for one in gc.get_objects():
            if str(type(one).__module__).startswith("paperclip_launcher") and not isinstance(one, ApiError):
                text = repr(one)
                if hash(text) not in self._seen:
                    self._seen.add(hash(text))
                    found[type(one).__name__].add(text)
        for name, texts in found.items():
            self.search(f"{output}: {name}", "\n".join(sorted(texts)))

    # What goes into a run.

    def context(self, run: str, **config: Any) -> dict[str, Any]:
        """As Paperclip sends it."""
        of = self.values
        servers = {
            "one": {"command": "npx", "args": [of["mcpServers args"]], "env": {"KEY": of["mcpServers env"]}},
            "two": {
                "type": "http",
                "url": of["mcpServers url"],
                "headers": {"Authorization": of["mcpServers headers"]},
            },
        }
        env = {f"GIVEN_{number}": of[place] for number, place in enumerate(PLACES) if place.startswith("env")}
        tree = {
            "promptTemplate": of["promptTemplate"],
            "bootstrapPromptTemplate": of["bootstrapPromptTemplate"],
            "preRunCommand": of["preRunCommand"],
            "env": env,
            "inheritEnv": ["ANTHROPIC_API_KEY"],
            "mcpServers": servers,
        }
        return {
            "runId": run,
            "agent": {"id": f"agent-of-{run}", "companyId": "company-1", "name": "Ada", "adapterType": "claude_k8s"},
            "runtime": {},
            "config": {**tree, **config},
            "context": {
                "issueId": "T-1",
                "paperclipTaskMarkdown": of["task"],
                "paperclipWake": {"reason": "comment", "comments": [{"body": of["wake"]}]},
            },
            "authToken": of["authToken"],
        }

    def echoed(self, places: Sequence[str]) -> Iterator[bytes]:
        """Lines of an agent that tells them all, in every form; two of the first one lie across two batches."""
        for place in places:
            value = self.values[place]
            raw = value.encode()
            yield b"plain: " + raw.replace(b"\n", b"\\n")
            yield event("assistant", session_id="s-1", message={"id": place, "content": [_text(f"it is {value}!")]})
            yield json.dumps({"type": "user", "nested": json.dumps({"a": value, "b": json.dumps(value)})}).encode()
            yield b"url: https://x/?a=" + quote(value, safe="").encode() + b"&b=" + quote(value).encode()
            if place in BY_LOOKS:
                continue
            for before in (b"", b"x", b"xy"):
                yield b"base64: " + base64.b64encode(before + raw + b"-tail")
                yield b"url64: " + base64.urlsafe_b64encode(before + raw)
            flat = raw.replace(b"\n", b"\\n")
            for size in (64 << 10, 256 << 10) if place == places[0] else ():
                yield b"." * (size - len(flat) // 2) + flat + b" end"

    def error(self, places: Sequence[str] = ("env", "authToken", "kubeconfig token", "env, quoted")) -> str:
        """A Status as an API server or a webhook might write it, with secrets in its message: the last one is cut."""
        told = " ".join(self.values[place] for place in places)
        coded = base64.b64encode(self.values[places[0]].encode()).decode()
        tree = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
        return json.dumps({**tree, "message": f"webhook denied {coded} {told}", "details": {"name": told}})

    def troubles(self, places: Sequence[str] = ("env", "authToken", "kubeconfig token", "env, quoted")) -> list[Rule]:
        """Errors that end nothing: they are tried again, or only logged."""
        said = self.error(places)
        page = f"<html>{' '.join(self.values[place] for place in PLACES)}</html>"
        html = {"content-type": "text/html"}
        return [
            Rule("status", "list", "pods", status=500, body=said),
            Rule("status", "watch", "leases", status=403, body=said),
            Rule("status", "list", "events", status=502, headers=html, body=page),
            Rule("status", "create", "secrets", status=503, body=said),
            Rule("status", "get", "pods/log", status=500, body=said),
            Rule("status", "create", "events", times=9, status=403, body=said),
        ]


def _without_last_words(tree: Any) -> Any:
    """A kubelet shows the end of an agent's log in the status of its pod, as it does the log itself."""
    if isinstance(tree, dict):
        return {key: _without_last_words(value) for key, value in tree.items() if key != "terminated"}
    return [_without_last_words(one) for one in tree] if isinstance(tree, list) else tree


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def talker(cage: Cage, places: Sequence[str], *, fails: bool) -> Program:
    """Its lines come within moments, to be cut into pieces anywhere on their way."""
    told = " ".join(cage.values[place] for place in places)
    end = event("result", subtype="success", is_error=fails, result=told, session_id="s-1") if fails else DONE
    last = [f"fatal: cannot log in with {told}".replace("\n", " ").encode()] if fails else []
    return Program(tuple((0.001, line) for line in (INIT, *cage.echoed(places), end, *last)), 1 if fails else 0)
