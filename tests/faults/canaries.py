"""Canaries in every place where a secret can be, and a search for them in everything that the launcher says."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paperclip_launcher.exposition import exposition
from paperclip_launcher.journal import FolderJournal
from paperclip_launcher.masking import Mask
from paperclip_launcher.request import RunRequest
from tests.fakeapi.faults import Faults
from tests.fakeapi.sockets import Rule, SocketServer, kubeconfig
from tests.faults.cage import BY_LOOKS, PLACES, TOLD, Cage, talker
from tests.faults.kills import quick_templates
from tests.faults.longtexts import cut_everywhere
from tests.faults.place import ROOT, Place, Reader, quick, soon
from tests.faults.table import Figure, at_least, exactly


class _Watched(SocketServer):
    """`asked` is called with each request before it is served."""

    asked: Callable[[str, str], None] = staticmethod(lambda verb, resource: None)

    def rule_for(self, verb: str, resource: str) -> Rule | None:
        self.asked(verb, resource)
        return super().rule_for(verb, resource)


class _Place(Place):
    server_class = _Watched


@dataclass
class Scene:
    """Programs of the command line before one cluster, all in one folder."""

    cage: Cage
    folder: Path
    place: Place

    def __post_init__(self) -> None:
        values = self.cage.values
        self.place.cluster.keep_trail = True
        (self.folder / "kubeconfig").write_text(kubeconfig(self.place.server.url, values["kubeconfig token"]))
        (self.folder / "instructions.md").write_text(values["instructions"])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "PAPERCLIP", "XDG"))}
        self.environment = kept | {
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PAPERCLIP_JOB_TEMPLATES": str(quick_templates()),
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": values["inheritEnv"],
            "AWS_SECRET_ACCESS_KEY": values["launcher's environment"],
        }

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "paperclip_launcher.cli.main", *words, "--debug"),
            cwd=self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=16 << 20,
        )

    async def program(self, *words: str) -> tuple[int | None, str]:
        """Its exit code and what it said on stderr; all that it said is searched."""
        process = await self.start(*words)
        try:
            async with asyncio.timeout(60.0):
                out, said = await process.communicate()
        except TimeoutError:
            process.kill()
            raise
        self.cage.search(f"stdout of {words[0]}", out)
        self.cage.search(f"stderr of {words[0]}", said)
        return process.returncode, said.decode(errors="replace")

    def asks(self, name: str, tree: Mapping[str, Any]) -> str:
        (self.folder / name).write_text(json.dumps(tree, ensure_ascii=False))
        return name

    def look_at_state(self) -> None:
        self.cage.search_folder("state", self.folder / "state")

    async def one_run(self, run: str, *words: str, fails: bool = False, **config: Any) -> int | None:
        """With an agent that tells all; the state is looked at whenever the launcher asks for something."""
        self.place.cluster.program_for = lambda _: talker(self.cage, TOLD, fails=fails)
        context = self.cage.context(run, **config, instructionsFilePath=str(self.folder / "instructions.md"))
        path = self.asks(f"request-{run}.json", context)
        code, _ = await self.program("run", path, "--skills", str(self.folder), "--log-level", "debug", *words)
        return code

    def search_rest(self) -> None:
        own = [path.name for path in self.folder.glob("request-*.json")]
        self.cage.search_folder("files", self.folder, without=("kubeconfig", "instructions.md", *own))
        self.cage.search_cluster(self.place)


def _wrong(cage: Cage) -> Iterator[dict[str, Any]]:
    """Configs that are refused, each for what a secret of it looks like."""
    value = cage.values["env"]
    nul = f"{value}\0{value}"
    for env in ({"A": nul}, {value: "x"}, {"A": value * 4000}, {"GITHUB_TOKEN": value}, {"A": [value]}, f"A\n{value}"):
        yield {"env": env}
    for env in ({"A": f"https://ada:{value}@github.com/x"}, [value], f'{{"A": "{value}"', 7):
        yield {"env": env}
    for servers in (f'{{"a": "{value}"', [value], {"a": {"env": value}}, {"a": value}, {"a": {"headers": [value]}}):
        yield {"mcpServers": servers}
    yield {"mcpServers": {"a": {"env": {"GITHUB_TOKEN": f"ghp_{value}{value}"}}}}
    yield {"preRunCommand": f"git clone https://x:{value}@github.com/x"}
    yield {"preRunCommand": [value]}
    yield {"extraArgs": [f"--token=ghp_{value}{value}"]}
    yield {"promptTemplate": [value]}
    yield {"promptTemplate": f"{value}\ud800"}
    yield {"promptTemplate": value * 600_000}


async def _refusals(scene: Scene) -> int:
    """How many requests were refused, by `run` and by `render`."""
    cage, count = scene.cage, 0
    trees = [cage.context("bad", **config) for config in _wrong(cage)]
    wrong = ({"authToken": cage.values["env"] + "\n"}, {"config": cage.values["env"]}, {"agent": cage.values["env"]})
    trees += [{**cage.context("bad"), **change} for change in wrong]
    for number, tree in enumerate(trees):
        path = f"request-bad-{number}.json"
        (scene.folder / path).write_text(json.dumps(tree))
        code, _ = await scene.program("run" if number % 3 else "render", path)
        count += code == 3
    text = json.dumps(cage.context("bad"))
    for broken in (text[:-5], text.replace('"env"', '"env', 1), text.replace(cage.values["env"], '"', 1)):
        (scene.folder / "request-broken.json").write_text(broken)
        await scene.program("run", "request-broken.json")
    whole = (scene.folder / "kubeconfig").read_text()
    token = cage.values["kubeconfig token"]
    for broken in (whole.replace('"token": "', '"token": "\\q'), whole.replace(token, token + "\\n"), whole[:-9]):
        (scene.folder / "kubeconfig").write_text(broken)
        await scene.program("run", "request-bad-0.json")
        await scene.program("list")
    (scene.folder / "kubeconfig").write_text(whole)
    return count


async def _serving(scene: Scene) -> None:
    """`serve` on stdin and stdout, asked for everything."""
    cage = scene.cage
    scene.place.cluster.program_for = lambda _: talker(cage, TOLD, fails=False)
    context = cage.context("run-served")
    bad = {**context, "config": {"env": {"A": f"{cage.values['env']}\0"}}}
    process = await scene.start("serve", "--stdio", "--log-level", "debug", "--log-format", "json")
    assert process.stdin is not None
    assert process.stdout is not None
    heard: list[bytes] = []

    async def call(number: int, method: str, params: Any) -> None:
        tree = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(tree).encode() + b"\n")
        while line := await process.stdout.readline():
            heard.append(line)
            answer = json.loads(line)
            if answer.get("id") == number:
                return
            if answer.get("method") == "run.log":
                told = answer["params"]
                stored = {"runId": told["runId"], "offset": told["offset"]}
                process.stdin.write(
                    json.dumps({"jsonrpc": "2.0", "method": "run.ack", "params": stored}).encode() + b"\n"
                )
        raise AssertionError(f"{method}: no answer")

    calls = (
        ("initialize", {"protocolVersion": 1}),
        ("environment.test", {"config": context["config"]}),
        ("environment.test", {"config": bad["config"]}),
        ("run.execute", {"context": bad}),
        ("run.execute", {"context": [cage.values["env"]]}),
        ("run.execute", {"context": context, "offset": cage.values["env"]}),
        ("skills.list", {"config": context["config"]}),
        ("skills.list", {"config": cage.values["env"]}),
        ("run.execute", {"context": context}),
        ("run.describe", {"runId": "run-served"}),
        ("run.list", {}),
        ("metrics", {}),
        ("run.acknowledge", {"runId": "run-served"}),
        ("adapter.describe", {}),
        ("shutdown", {}),
    )
    async with asyncio.timeout(60.0):
        for number, (method, params) in enumerate(calls, 1):
            await call(number, method, params)
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 99, "method": "' + cage.values["env"].encode() + b'"\n')
        rest, said = await process.communicate()
    cage.search("stdout of serve", b"".join(heard) + rest)
    cage.search("stderr of serve", said)
    if not any(b"run.log" in line for line in heard):
        cage.hits["serve told no log"] = b""


async def _objects(cage: Cage, folder: Path) -> None:
    """A launcher in this process, whose objects are looked at as it works."""
    mask = Mask([cage.values["kubeconfig token"]])
    told = [place for place in TOLD if place != "inheritEnv"]  # which is a matter of the command line
    async with _Place(talker(cage, told, fails=True), seed=cage.seed, knobs=soon()) as place:
        place.server.rules = cage.troubles()
        token = folder / "token"
        token.write_text(cage.values["kubeconfig token"])
        looked: set[tuple[str, str]] = set()

        def look(verb: str, resource: str) -> None:
            if (verb, resource) not in looked and resource in ("jobs", "secrets", "pods/log"):
                looked.add((verb, resource))
                cage.search_objects("repr of objects")
                cage.search_folder("journal", folder / "journal")

        place.server.asked = look
        reader = Reader()
        launcher = place.launcher(journal=FolderJournal(folder / "journal"), mask=mask, token_file=token)
        async with launcher:
            context = cage.context("run-1")
            del context["config"]["inheritEnv"]
            run = await launcher.begin(RunRequest.of(context), reader)
            result = await run.result
            cage.search_objects("repr of objects")
            cage.search("log for the reader", bytes(reader.data))
            cage.search_tree("notes", reader.notes)
            cage.search_tree("result", result.to_json())
            cage.search("repr of a result", repr(result))
            cage.search("metrics", exposition(launcher.metrics))
            run.acknowledge()
            while launcher.runs:  # noqa: ASYNC110  it lasts some moments
                await asyncio.sleep(0.01)
        cage.search_cluster(place)
        if b"plain: " not in reader.data:
            cage.hits["the reader was told nothing"] = b""


async def _verbs(scene: Scene) -> None:
    """Verbs beside a run whose secrets they cannot know; its agent tells only what looks like one."""
    cage = scene.cage
    scene.place.cluster.program_for = lambda _: talker(cage, BY_LOOKS, fails=True)
    path = scene.asks("request-kept.json", cage.context("kept", retainJobs=True, ttlSecondsAfterFinished=3600))
    await scene.program("run", path)
    # It cannot know what the run is given, and an API server does not tell it: here it tells the launcher's own token.
    scene.place.server.rules = cage.troubles(("kubeconfig token",))
    for words in (("list",), ("describe", "kept"), ("logs", "kept", "--raw"), ("logs", "kept"), ("check",), ("gc",)):
        await scene.program(*words)
        await scene.program(*words, "--format", "json")
    await scene.program("cancel", "kept")
    await scene.program("render", path)
    await scene.program("render", path, "--format", "json")


def _ends(cage: Cage) -> Iterator[tuple[str, list[Rule]]]:
    """Answers of the API server that end a run."""
    text = " ".join(cage.values[place] for place in PLACES)
    yield "refused-secret", [Rule("status", "create", "secrets", times=9, status=403, body=cage.error())]
    yield "refused-job", [Rule("status", "create", "jobs", times=9, status=422, body=cage.error())]
    yield "no-json", [Rule("status", "create", "jobs", status=201, body=f"<p>{text}")]
    yield "odd-json", [Rule("status", "create", "jobs", status=201, body=json.dumps({"metadata": text}))]
    yield "odd-list", [Rule("status", "list", "jobs", status=200, body=json.dumps({"items": text}))]
    yield "denied", [Rule("status", "create", "leases", times=99, status=403, body=cage.error())]


async def _programs(cage: Cage, folder: Path, *, full: bool) -> int:
    """How many refusals there were."""
    async with _Place(seed=cage.seed, knobs=soon()) as place:
        scene = Scene(cage, folder, place)
        place.server.asked = lambda _verb, _resource: scene.look_at_state()
        place.server.rules = cage.troubles()
        place.server.faults = Faults(fragments=True)
        await scene.one_run("bad-end", "--output", "o.log", "--result", "r.json", "--log-format", "json", fails=True)
        refused = 0
        if full:
            place.server.rules = cage.troubles()
            await scene.one_run("good-end", "--format", "json")
            await scene.one_run("in-pieces", toolOutputLimitBytes=100, retainJobs=True)
            for name, rules in _ends(cage):
                place.server.rules = rules
                await scene.one_run(name)
            place.server.rules = []
            await _serving(scene)
            await _verbs(scene)
            place.server.rules = []
            refused = await _refusals(scene)
        scene.search_rest()
        return refused


def search_all(seed: int, *, full: bool) -> tuple[Cage, int]:
    """The cage after its canaries were searched for everywhere, and how many wrong configs were refused."""
    cage = Cage(seed)
    cut_everywhere(cage, *((3,) if full else (28, (500, 8192))))
    root = Path(tempfile.mkdtemp(prefix="paperclip-canaries-"))
    try:
        for name in ("objects", "programs"):
            (root / name).mkdir()
        quick(_objects(cage, root / "objects"), 5.0)
        refused = quick(_programs(cage, root / "programs", full=full))
    finally:
        shutil.rmtree(root)
    return cage, refused


def figures(seed: int, *, full: bool = True) -> list[Figure]:
    """Without `full`, one run of a program and one in this process."""
    cage, refused = search_all(seed, full=full)
    name = "canaries"
    for hit, around in sorted(cage.hits.items()):
        sys.stderr.write(f"seed {seed}: {hit}: {around!r}\n")
    found = [
        at_least(name, "secrets", len(PLACES), 20),
        at_least(name, "kinds of output searched", len(cage.outputs), 40 if full else 20),
        Figure(name, "bytes searched", f"{cage.searched:,}", "", ok=True),
        exactly(name, "found outside Secrets", sorted(cage.hits), []),
    ]
    if full:
        found.append(at_least(name, "configs refused without a word of them", refused, 20))
    return found
